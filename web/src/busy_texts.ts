// The texts that tell what happens to a message while its session is busy, as in semel/faces/busy_texts.py.

import type { BusyMode } from "./wire.ts";

export const DOES: Record<BusyMode, string> = {
  queue: "it waits; the next turn takes all that waits, in order",
  steer: "it joins the running turn, if the agent reads a second message; else it waits",
  interrupt: "it stops the running turn; the next one takes it",
  collect: "it waits until nothing more comes; then one turn takes it all",
};
const FATES: Record<string, string> = { steer: "joins the running turn", interrupt: "interrupts the running turn", collect: "collecting" };

const ENDINGS: Record<string, string> = { one: "st", two: "nd", few: "rd", other: "th" };
const RULES = new Intl.PluralRules("en", { type: "ordinal" });
const ordinal = (number: number): string => `${number}${ENDINGS[RULES.select(number)]}`;

/** How a message waits, like "queued, 2nd in line". `place` counts from 1 in the session's queue. */
export function waits(mode: BusyMode, place?: number): string {
  if (mode !== "queue") return FATES[mode] ?? mode;
  return place ? `queued, ${ordinal(place)} in line` : "queued";
}
