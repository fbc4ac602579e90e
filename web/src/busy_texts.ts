// The texts that tell what happens to a message while its session is busy, as in semel/faces/busy_texts.py.

import type { BusyMode } from "./wire.ts";
import { language, t } from "./texts.ts";

export const DOES: Record<BusyMode, string> = {
  queue: t("it waits; the next turn takes all that waits, in order"),
  steer: t("it joins the running turn, if the agent reads a second message; else it waits"),
  interrupt: t("it stops the running turn; the next one takes it"),
  collect: t("it waits until nothing more comes; then one turn takes it all"),
};
const FATES: Record<string, string> = { steer: t("joins the running turn"), interrupt: t("interrupts the running turn"), collect: t("collecting") };

const ENDINGS: Record<string, string> = { one: "st", two: "nd", few: "rd", other: "th" };
const RULES = new Intl.PluralRules("en", { type: "ordinal" });
const ordinal = (number: number): string => (language === "de" ? `${number}.` : `${number}${ENDINGS[RULES.select(number)]}`);

/** How a message waits, like "queued, 2nd in line". `place` counts from 1 in the session's queue. */
export function waits(mode: BusyMode, place?: number): string {
  if (mode !== "queue") return FATES[mode] ?? mode;
  return place ? t("queued, {place} in line", { place: ordinal(place) }) : t("queued");
}
