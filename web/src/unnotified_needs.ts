// The needs that a hidden page has still to notify of: each once, in all tabs of the browser together. What was notified
// is kept in the browser's storage, so another tab, or this one after a reload, does not notify of it again.

import { keep, kept } from "./kept.ts";

export const AWAY_MS = 30000; // who comes back within this time is not notified of what they saw before they left

type Counts = ReadonlyMap<string, number>; // by session: how many things need somebody

export class UnnotifiedNeeds {
  private counts: Counts = new Map();

  /** Takes what the gateway lists. Returns the sessions to notify of if nobody looks, and those that no longer need anybody. */
  take(counts: Counts): { due: string[]; over: string[] } {
    const before = this.counts;
    this.counts = counts;
    keep("notified", [...readNotified()].map(([key, count]) => [key, Math.min(count, counts.get(key) ?? 0)]).filter(([, count]) => count));
    return {
      due: this.due((key, count) => count > (before.get(key) ?? 0)),
      over: [...before.keys()].filter((key) => !counts.has(key)),
    };
  }

  /** The sessions with a need that was not notified: those for which `isNew` is true; all, once nobody has looked for a while. */
  due(isNew: (key: string, count: number) => boolean = () => false): string[] {
    const known = readNotified();
    const isAway = Date.now() - Number(kept("left", "0")) >= AWAY_MS;
    return [...this.counts].filter(([key, count]) => count > (known.get(key) ?? 0) && (isAway || isNew(key, count))).map(([key]) => key);
  }

  /** Keeps that so many needs of a session were notified, apart from those that are over by now. */
  keepNotified(key: string, count: number): void {
    const open = Math.min(count, this.counts.get(key) ?? 0);
    if (open) keep("notified", [...readNotified().set(key, open)]);
  }
}

/** Keeps when the reader left: now. */
export const noteLeaving = (): void => keep("left", String(Date.now()));

const readNotified = (): Map<string, number> => new Map(kept<[string, number][]>("notified", []));
