// What needs somebody, as the rows of the inbox: how they come, stay in their place, and end.

import { t } from "../texts.ts";
import type { Need, OutgoingPart } from "../wire.ts";

export interface NeedRow {
  readonly key: string;
  readonly need: Need;
  /** The held parts of one message, in order. */
  readonly parts: readonly OutgoingPart[];
  /** How it ended; null: it is open. */
  readonly over: string | null;
  /** Why the last answer was not taken; "": it was, or there was none. */
  readonly wrong: string;
}

export const UNKNOWN_END = t("This is over.");

/** The identity of a need: the parts of one message are one need. */
export function keyOf({ session, why, item, part, turn }: Need): string {
  if (item) return `item ${session} ${item.id}`;
  if (part) return `held ${session} ${part.claim ?? `p${part.id}`} ${part.dest}`;
  return `${why} ${session} ${turn ?? ""}`;
}

/** The rows of these needs, the oldest first. */
export function rowsOf(needs: readonly Need[]): NeedRow[] {
  const rows = new Map<string, NeedRow>();
  for (const need of needs) {
    const key = keyOf(need);
    const before = rows.get(key);
    const parts = [...(before?.parts ?? []), ...(need.part ? [need.part] : [])].sort((a, b) => a.id - b.id);
    rows.set(key, { key, need: before && before.need.at < need.at ? before.need : need, parts, over: null, wrong: "" });
  }
  return [...rows.values()].sort((a, b) => a.need.at - b.need.at);
}

/**
 * The rows after the gateway has told its needs again. No row moves: a new one joins the end, and one that is no need any
 * more stays until it has said how it ended. `gone` are those of which nobody here knows how.
 */
export function mergeNeeds(shown: readonly NeedRow[], needs: readonly Need[]): { rows: NeedRow[]; gone: NeedRow[] } {
  const told = new Map(rowsOf(needs).map((row) => [row.key, row]));
  const gone: NeedRow[] = [];
  const rows = shown.map((row) => {
    const fresh = told.get(row.key);
    told.delete(row.key);
    if (row.over !== null) return row;
    if (fresh) return { ...fresh, wrong: row.wrong };
    const over = { ...row, over: UNKNOWN_END, wrong: "" };
    gone.push(over);
    return over;
  });
  return { rows: [...rows, ...told.values()], gone };
}
