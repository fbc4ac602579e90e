// A long output as a phone shows it: its first and its last lines.

import { plainly } from "../text.ts";

const MAX_LINES = 24; // an output of so many lines is shown whole
const MAX_CHARS = 1600;
const KEPT_LINES = 8; // at each end
const KEPT_CHARS = 500;

export interface Output {
  head: string;
  tail: string;
  /** How many characters are between them. */
  left: number;
}

/** The first and last lines of an output; the same output if it is short. No character is counted twice or not at all. */
export function shortened(whole: Output): Output {
  const { head, tail, left } = whole;
  const shown = head + tail;
  if (shown.length <= MAX_CHARS && shown.split("\n").length <= MAX_LINES) return whole;
  const first = head.split("\n", KEPT_LINES).join("\n").slice(0, KEPT_CHARS);
  const rest = left || tail ? tail : head.slice(first.length);
  const last = rest.split("\n").slice(-KEPT_LINES - 1).join("\n").slice(-KEPT_CHARS);
  return { head: first, tail: last, left: left + shown.length - first.length - last.length };
}

const MAX_LINE_CHARS = 200;
const MAX_TAIL_CHARS = 4000; // in which it is looked for

/** The last line of an output that has anything in it, as it stands beside the name of a call that runs. */
export function lastLine(output: string): string {
  const plain = output.slice(-MAX_TAIL_CHARS).replace(/\u001b\[[0-9;:]*m/g, "").trimEnd();
  return plainly(plain.slice(plain.lastIndexOf("\n") + 1).trim().slice(0, MAX_LINE_CHARS));
}
