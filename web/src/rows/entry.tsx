// One entry of the transcript: who spoke, what they said, and what became of it.

import { useState } from "preact/hooks";
import type { Row } from "../transcript.ts";
import { openly, plainly } from "../text.ts";
import type { Entry, Item } from "../wire.ts";
import { type RowContext, isOwn } from "./context.ts";
import { Fates } from "./fate.tsx";
import { Coded, Files, LongText, Mark, Quoted, Time, deed } from "./parts.tsx";
import { Rich } from "./rich.tsx";
import { isCalm, isOwner, questionText, wordsOf } from "./wording.ts";
import { isOpened, setOpened } from "./opened.ts";
import { t } from "../texts.ts";

const RETRIED = new Set(["failed", "turn.failed", "turn.empty", "turn.cancelled"]); // kinds of notices after which /retry works
const WHO: Record<string, string> = { user: t("You"), agent: t("Agent"), notice: t("Notice") };

export function EntryView({ row, entry, context }: { row: Row; entry: Entry; context: RowContext }) {
  const card = row.card.value?.data.value as Item | undefined;
  return (
    <>
      <Head entry={entry} context={context} />
      <div class="meant">
        <Quoted entry={entry} context={context} />
      </div>
      <Folded row={row} entry={entry}>
        {entry.role === "agent" && entry.text ? (
          <Rich row={row} text={questionText(entry.text, card)} live={Boolean(entry.live)} />
        ) : entry.role === "notice" ? (
          <div class="body"><Coded text={wordsOf(entry)} /></div>
        ) : (
          <LongText owner={row} text={openly(wordsOf(entry))} />
        )}
      </Folded>
      <div class="foot">
        <Files files={entry.files} />
        <Marks row={row} entry={entry} context={context} />
        <Fates entry={entry} context={context} />
      </div>
      {entry.role === "notice" ? null : <Aside entry={entry} context={context} />}
    </>
  );
}

/** The classes of an entry's row. */
export function entryClass(entry: Entry): string {
  const { role, kind, live, partial, superseded, deleted, text } = entry;
  const flags: Record<string, unknown> = {
    live,
    command: kind === "command",
    summary: isSummary(entry),
    asked: isRequest(entry),
    calm: isCalm(entry),
    question: role === "agent" && kind === "ask",
    partial,
    superseded: superseded || deleted,
    gesture: role === "user" && kind === "reaction",
    bare: role === "user" && !text,
  };
  return ["entry", role, ...Object.keys(flags).filter((name) => flags[name])].join(" ");
}

function Head({ entry, context }: { entry: Entry; context: RowContext }) {
  const done = deed(entry);
  return (
    <div class="head">
      <span class="who">{plainly(speaker(entry, context))}</span>
      {done ? <span class="via">{done}</span> : null}
      {entry.from ? <span class="via">{t("from {name}", { name: plainly(entry.from) })}</span> : null}
      {entry.to ? <span class="via">{t("to {name}", { name: plainly(entry.to) })}</span> : null}
      <Time at={entry.at} />
    </div>
  );
}

function speaker(entry: Entry, context: RowContext): string {
  const { role, sender, kind } = entry;
  if (isSummary(entry)) return t("Summary");
  if (role === "event") return reporter(entry);
  if (sender) return kind === "answer" && isOwner(sender) ? t("You") : sender;
  if (role === "agent") return context.agent();
  return kind === "command" && role === "notice" ? "Semel" : WHO[role] ?? role;
}

/** Who reported an event: its kind, and its sender if it names one. */
export function reporter({ kind, sender }: { kind?: string; sender?: string }): string {
  const what = kind || t("Event");
  return sender ? t("{kind} from {sender}", { kind: what, sender }) : what;
}

/**
 * The text, folded if it is a summary (which is for the model) or a permission request as it was sent to a chat (the row
 * above shows that request, with buttons).
 */
function Folded({ row, entry, children }: { row: Row; entry: Entry; children: preact.ComponentChildren }) {
  const { first, last } = entry.covers ?? {};
  const label = isRequest(entry)
    ? t("The question, as it was sent")
    : isSummary(entry)
      ? t("The model goes on from a summary of entries {first} to {last}. They stay where they are.", { first: first ?? "", last: last ?? "" })
      : null;
  if (label === null) return <>{children}</>;
  return (
    <details open={isOpened(row)} onToggle={(event) => setOpened(row, event.currentTarget.open)}>
      <summary>{label}</summary>
      {children}
    </details>
  );
}

function Marks({ row, entry, context }: { row: Row; entry: Entry; context: RowContext }) {
  const { partial, superseded, echoes, tool, late, behind, waiting, joined, automatic, edited, deleted } = entry;
  const ended = lateEnd(entry);
  const due = lateDue(entry);
  const times = echoes && echoes > 1 ? ` ×${echoes}` : "";
  return (
    <>
      {partial ? <Mark text={t("cut off")} title={t("The agent ended before this was finished. What had been shown is kept.")} /> : null}
      {superseded ? <Mark text={t("said again below")} title={t("A later attempt at this turn replaced it.")} /> : null}
      {echoes ? <Mark text={`${t("also sent by tool")}${times}`} title={t("The agent sent this with a tool and said it again; it was delivered once.")} /> : null}
      {tool && !echoes && !deed(entry) && !entry.files?.length ? <Mark text={t("sent by tool")} title={t("The agent sent this while it worked.")} /> : null}
      {late ? <Mark text={t("late")} title={t("It came after its turn was over.")} /> : null}
      {behind ? <Mark text={t("reached the chat later")} title={t("It was still being written: the chat got it after the entries below it.")} /> : null}
      {automatic ? <Mark text={t("automatic")} title={t("A program sent this.")} /> : null}
      {joined ? <Mark text={t("joined the running turn")} title={t("The agent got this while it worked.")} /> : null}
      {ended ? <span class="mark" title={t("The report of its end came late.")}>{t("ended at")} <Time at={ended} /></span> : null}
      {due ? <span class="mark" title={t("No gateway ran then, or the machine slept.")}>{t("was due at")} <Time at={due} /></span> : null}
      {edited ? <Mark text={t("edited later")} title={t("Message {seq} has the new text. This is the original.", { seq: edited })} /> : null}
      {deleted ? <Mark text={t("deleted later")} title={t("It was deleted where it was written. The record keeps it.")} /> : null}
      {waiting ? <span class="waits">{row.line.value}</span> : null}
      {entry.role === "notice" && RETRIED.has(entry.kind ?? "") ? (
        <>
          <button type="button" class="tiny retry" title={t("Run the turn again (/retry)")} onClick={() => context.retry()}>
            {t("Try again")}
          </button>
          <Why entry={entry} context={context} />
        </>
      ) : null}
    </>
  );
}

/** A press on a button would end the selection that it is about. */
const keepSelection = (event: Event): void => event.preventDefault();

function Why({ entry, context }: { entry: Entry; context: RowContext }) {
  return (
    <button type="button" class="tiny why" title={t("How it came about, and what became of it")} onClick={() => context.why(entry.seq)}>
      {t("Why")}
    </button>
  );
}

/** What the reader has selected, as text, if some of it is in a node; else "". */
function selectedIn(node: Element): string {
  const selection = document.getSelection();
  return selection && !selection.isCollapsed && selection.containsNode(node, true) ? selection.toString() : "";
}

/** Below a message: what can be done with it, its story, and for an agent's text its time. */
function Aside({ entry, context }: { entry: Entry; context: RowContext }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(entry.text);
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  const quote = (event: MouseEvent) => {
    const body = (event.currentTarget as Element).closest(".entry")!.querySelector(".body")!;
    context.quote(selectedIn(body) || entry.text);
  };
  return (
    <div class="aside">
      {entry.role === "agent" ? <Time at={entry.at} /> : null}
      {entry.role === "agent" && navigator.clipboard ? (
        <button type="button" class="tiny" title={t("Copy the text as it was said")} onClick={copy}>
          {copied ? t("Copied") : t("Copy")}
        </button>
      ) : null}
      {entry.text ? (
        <button type="button" class="tiny" title={t("Put it, or what is selected of it, into the message box as a quote")} onMouseDown={keepSelection} onClick={quote}>
          {t("Quote")}
        </button>
      ) : null}
      {isOwn(entry) ? (
        <button type="button" class="tiny" title={t("Put it into the message box again. What you send then is a new message")} onClick={() => context.edit(entry)}>
          {t("Edit")}
        </button>
      ) : null}
      <Why entry={entry} context={context} />
    </div>
  );
}

const MAX_PUNCTUAL_MS = 60_000;

/** When a command ended, in ms, if its report came later than in a minute; as in semel/timing/late_reports.py. */
function lateEnd({ kind, data, at }: Entry): number | null {
  const ended = kind === "exec.finished" ? data?.ended : null;
  return typeof ended === "number" && Number.isInteger(ended) && ended >= 0 && at - ended > MAX_PUNCTUAL_MS ? ended : null;
}

/** When a schedule's firing was due, in ms, if it ran more than a minute later; as in semel/timing/late_reports.py. */
function lateDue({ kind, data, at }: Entry): number | null {
  const due = kind === "schedule" && typeof data?.due === "string" ? Date.parse(data.due) : NaN;
  return due >= 0 && at - due > MAX_PUNCTUAL_MS ? due : null;
}

const isSummary = ({ role, kind }: Entry): boolean => role === "notice" && kind === "summary";
const isRequest = ({ role, kind }: Entry): boolean => role === "notice" && kind === "permission";
