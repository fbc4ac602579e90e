// Asks again for what a view shows: now, when `told` changes, and now and then while somebody looks.

import { useEffect, useRef } from "preact/hooks";

const SOON_MS = 300; // several changes of `told` make one request

export function useRefresh(refresh: () => unknown, everyMs: number, told = ""): void {
  const first = useRef(true);
  useEffect(() => {
    const timer = setTimeout(refresh, first.current ? 0 : SOON_MS);
    first.current = false;
    return () => clearTimeout(timer);
  }, [told]);
  useEffect(() => {
    const look = (): void => void (document.hidden || refresh());
    const timer = setInterval(look, everyMs);
    document.addEventListener("visibilitychange", look);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", look);
    };
  }, []);
}
