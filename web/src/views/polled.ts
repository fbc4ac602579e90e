// What a view asks the gateway for, now and then, while somebody looks. Answers that did not change redraw nothing.

import { useRef, useState } from "preact/hooks";
import { NoAnswer, ask, messageOf } from "../api.ts";
import { t } from "../texts.ts";
import { useRefresh } from "./refreshed.ts";

export interface Polled<T> {
  /** The last answer; null: there was none yet. */
  data: T | null;
  /** Why there is no newer one; "": there is. */
  problem: string;
  again: () => Promise<void>;
}

/** Why the gateway did not answer, in words. */
export const problemText = (error: unknown): string => (error instanceof NoAnswer ? t("The gateway does not answer. It is asked again.") : messageOf(error));

export function usePolled<T>(path: string, everyMs: number): Polled<T> {
  const [state, setState] = useState<{ told: string; data: T | null; problem: string }>({ told: "", data: null, problem: "" });
  const asked = useRef(0);
  const again = async (): Promise<void> => {
    const turn = ++asked.current;
    try {
      const data = await ask<T>("GET", path);
      const told = JSON.stringify(data);
      if (turn === asked.current) setState((old) => (old.told === told && !old.problem ? old : { told, data, problem: "" }));
    } catch (error) {
      if (turn === asked.current) setState((old) => ({ ...old, problem: problemText(error) }));
    }
  };
  useRefresh(again, everyMs, path);
  return { data: state.data, problem: state.problem, again };
}
