// The delivery state of an entry at each destination, and the buttons to decide about held and rejected parts (Law 7).

import { useRef, useState } from "preact/hooks";
import { ask, messageOf } from "../api.ts";
import { plainly } from "../text.ts";
import type { Delivery, Entry } from "../wire.ts";
import type { RowContext } from "./context.ts";
import { t } from "../texts.ts";

const WORDS: Record<string, string> = {
  queued: t("waiting to leave"),
  sending: t("leaving"),
  sent: t("delivered"),
  unknown: t("looking whether it arrived"),
  held: t("may have arrived"),
  rejected: t("refused"),
  dropped: t("given up"),
  failed: t("came back: it was sent, and failed later"),
};
export type Verdict = readonly [verdict: string, text: string, title: string];
export const VERDICTS: readonly Verdict[] = [
  ["resend", t("Resend"), t("It is not there: send it again, marked as a repeat")],
  ["arrived", t("It arrived"), t("It is there: mark it as delivered")],
  ["drop", t("Drop"), t("Give it up")],
];
export const AFTER_NO: readonly Verdict[] = [
  ["resend", t("Send again"), t("Send it again, behind what waits, once the cause is removed")],
  ["drop", t("Drop"), t("Give it up")],
];
const OF_ALL: Record<string, (n: number) => string> = {
  resend: (n) => t("Resend all {count}", { count: n }),
  arrived: (n) => t("All {count} arrived", { count: n }),
  drop: (n) => t("Drop all {count}", { count: n }),
};

/** What can be decided: what asks about something that is over is not sent again, because it would look open. */
function possible(verdicts: readonly Verdict[], one: Delivery): readonly Verdict[] {
  return one.over ? verdicts.filter(([verdict]) => verdict !== "resend") : verdicts;
}

export function Fates({ entry, context }: { entry: Entry; context: RowContext }) {
  const all = entry.delivery || [];
  return (
    <>
      {all.map((one, place) => {
        const total = all.reduce((sum, other) => sum + (other.to === one.to ? other.parts || 1 : 0), 0);
        const line = <Line one={one} total={total} />;
        if (one.state === "rejected") {
          return (
            <span key={place} class="again">
              {line}
              <Buttons ids={one.rejected ?? [one.part]} context={context} verdicts={possible(AFTER_NO, one)} />
            </span>
          );
        }
        return one.state === "held" ? <Held key={place} one={one} context={context} place={`${entry.seq} ${one.to}`}>{line}</Held> : line;
      })}
    </>
  );
}

/** Where a message goes, and how far it is. */
export function Line({ one, total }: { one: Delivery; total: number }) {
  const what = one.failed ? "failed" : one.state;
  return (
    <span class={`fate ${what}`} title={one.error || ""}>
      <b>{plainly(one.to ?? "")}</b>
      {` ${WORDS[what] || what}${countText(one.parts || 1, total)}`}
    </span>
  );
}

/** How many parts of how many: " (1 of 3 parts)"; "" for a message of one part. */
function countText(here: number, all: number): string {
  if (all < 2) return "";
  return ` ${here === all ? t("({count} parts)", { count: all }) : t("({count} of {all} parts)", { count: here, all })}`;
}

/** A held delivery with the buttons to decide about it. `place` names it among all of the page. */
export function Held({ one, context, place, children }: { one: Delivery; context: Pick<RowContext, "decide">; place: string; children: preact.ComponentChildren }) {
  const ids = one.held ?? [one.part];
  const several = ids.length > 1;
  const verdicts = possible(VERDICTS, one);
  const look = several ? t("Nobody knows whether these arrived. Look there, then decide:") : t("Nobody knows whether this arrived. Look there, then decide:");
  const over = several ? t("Nobody knows whether these arrived, and what they ask is over.") : t("Nobody knows whether this arrived, and what it asks is over.");
  return (
    <div class="decide" role="group" aria-label={t("Held: {to}", { to: plainly(one.to) })}>
      {children}
      <p>
        {one.over ? over : look}
        {one.error ? <small> ({plainly(one.error)})</small> : null}
      </p>
      <Buttons ids={ids} context={context} verdicts={verdicts} called={(verdict, text) => (several ? OF_ALL[verdict]!(ids.length) : text)} />
      {several ? <Singly ids={ids} context={context} place={place} verdicts={verdicts} /> : null}
    </div>
  );
}

interface ButtonsProps {
  ids: number[];
  context: Pick<RowContext, "decide">;
  called?: (verdict: string, text: string) => string;
  verdicts: readonly Verdict[];
}

/** The decision buttons. Each decides about all of `ids` one by one, so that parts are resent in order. */
function Buttons({ ids, context, called = (_, text) => text, verdicts }: ButtonsProps) {
  const [busy, setBusy] = useState(false); // the buttons are not disabled meanwhile: they would lose the keyboard focus
  const deciding = useRef(false);
  const decide = async (verdict: string) => {
    if (deciding.current) return;
    deciding.current = true;
    setBusy(true);
    for (const id of ids) await context.decide(id, verdict);
    deciding.current = false;
    setBusy(false);
  };
  return (
    <>
      {verdicts.map(([verdict, text, title]) => (
        <button key={verdict} type="button" title={title} aria-disabled={busy ? "true" : undefined} onClick={() => decide(verdict)}>
          {called(verdict, text)}
        </button>
      ))}
    </>
  );
}

const opened = new Set<string>(); // lists that the reader opened: they stay open while rows come and go
const beginnings = new Map<number, string>(); // the beginnings of parts' texts

/** A list to decide about each part alone, if only some arrived. It fetches their texts when it is opened. */
function Singly({ ids, context, place, verdicts }: { ids: number[]; context: Pick<RowContext, "decide">; place: string; verdicts: readonly Verdict[] }) {
  const [, redraw] = useState(0);
  const fill = async (open: boolean) => {
    if (open) opened.add(place);
    else opened.delete(place);
    redraw((count) => count + 1);
    for (const id of open ? ids : []) {
      if (beginnings.has(id)) continue;
      beginnings.set(id, await beginning(id));
      redraw((count) => count + 1);
    }
  };
  return (
    <details class="singly" open={opened.has(place)} onToggle={(event) => fill(event.currentTarget.open)}>
      <summary>{t("One by one")}</summary>
      <ol>
        {(opened.has(place) ? ids : []).map((id) => (
          <li key={id}>
            <span class="text">{beginnings.get(id) ?? `p${id}`}</span>
            <Buttons ids={[id]} context={context} verdicts={verdicts} />
          </li>
        ))}
      </ol>
    </details>
  );
}

async function beginning(id: number): Promise<string> {
  try {
    const { text } = await ask<{ text?: string }>("GET", `/v1/parts/${id}`);
    return `p${id}: ${plainly(text || "").replace(/\s+/g, " ").trim().slice(0, 160)}`;
  } catch (error) {
    return `p${id}: ${messageOf(error)}`;
  }
}
