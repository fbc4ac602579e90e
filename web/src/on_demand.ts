// Parts of the page that are loaded when they are needed for the first time.

import { type ReadonlySignal, signal } from "@preact/signals";

/** A part that is loaded by `want`, once; its value is null until it is there. Without a connection, the next call tries again. */
export function onDemand<T extends object>(load: () => Promise<T>): { part: ReadonlySignal<T | null>; want: () => void } {
  const part = signal<T | null>(null);
  let isAsked = false;
  const want = async (): Promise<void> => {
    if (isAsked) return;
    isAsked = true;
    try {
      part.value = await load();
    } catch {
      isAsked = false;
    }
  };
  return { part, want: () => void want() };
}
