// Which lines of a file a change touches; loaded when the first change is shown.

import { structuredPatch } from "diff";

const AROUND = 3; // unchanged lines that are shown before and after a change
const MAX_DIFF_MS = 200;

/** The rows of a change, as [sign, line]: lines that go, that come, and some around them; "@" for a gap. null: too slow. */
export function changedLines(old: string, fresh: string): [string, string][] | null {
  const ended = (text: string) => (text && !text.endsWith("\n") ? `${text}\n` : text);
  const patch = structuredPatch("", "", ended(old), ended(fresh), undefined, undefined, { context: AROUND, timeout: MAX_DIFF_MS });
  return patch?.hunks.flatMap((hunk, place): [string, string][] => [
    ...(place ? [["@", ""] as [string, string]] : []),
    ...hunk.lines.filter((line) => !line.startsWith("\\")).map((line): [string, string] => [line[0]!, line.slice(1)]),
  ]) ?? null;
}
