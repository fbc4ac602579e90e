// The story of a message as steps: the lines of `semel why`, each with the stage to which it belongs, and how it went.

import { t } from "../texts.ts";
import type { Story } from "../wire.ts";

export interface Step {
  /** When it happened, in ms. */
  at: number;
  /** "Heard e1", "Turn t1", "Decided c1", "Delivery p1": the row that it tells of; "" if it is that of the step before. */
  stage: string;
  text: string;
  outcome: "good" | "bad" | "";
}

const STAGES: Record<string, string> = { e: t("Heard"), t: t("Turn"), c: t("Decided"), p: t("Delivery") };

/** The steps of a story, in its order. A line that names no row belongs to the row of the line before. */
export function stepsOf({ lines }: Story): Step[] {
  let last = "";
  return lines.map(({ at, text }) => {
    const [, named = last, rest = text] = /^([etcp]\d+): ([^]*)$/.exec(text) ?? [];
    const stage = named === last ? "" : `${STAGES[named[0]!]} ${named}`;
    last = named;
    return { at, stage, text: capital(rest.replace(/ -> (?=[^>]*$)/, " → ")), outcome: outcomeOf(named, rest) };
  });
}

function outcomeOf(ref: string, text: string): Step["outcome"] {
  if (/^(failed|rejected|held|refused)\b|nobody knows whether|-> refused|\bfailed:/.test(text)) return "bad";
  return ref.startsWith("p") && /^sent\b|^attempt \d+: (it was )?sent\b/.test(text) ? "good" : "";
}

/** A text with a capital at its begin, unless that is a name such as "job-1:". */
const capital = (text: string): string => text.replace(/^[a-z](?=[a-z']*[ ,]|[a-z]*$)/, (letter) => letter.toUpperCase());
