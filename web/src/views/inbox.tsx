// The inbox: what needs somebody, over all sessions, each with what is needed to answer it in place.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { Held, Line } from "../rows/fate.tsx";
import { Guard } from "../rows/list.tsx";
import { Time } from "../rows/parts.tsx";
import { RequestView, idOf, nameOf } from "../rows/request.tsx";
import { Rich } from "../rows/rich.tsx";
import { questionText } from "../rows/wording.ts";
import { called, openly, plainly, zonedTime } from "../text.ts";
import { t } from "../texts.ts";
import type { Delivery, Need } from "../wire.ts";
import { InboxRows } from "./inbox_rows.ts";
import type { NeedRow } from "./needs.ts";
import { StoryButton } from "./pieces.tsx";
import { useRefresh } from "./refreshed.ts";
import type { ViewProps } from "./views.tsx";

const needs = new InboxRows();
const EVERY_MS = 10000;

export function Inbox({ list }: ViewProps) {
  const told = JSON.stringify(list.needy.value.map(({ key, rev, approvals, questions, held, failed }) => [key, rev, approvals, questions, held, failed]));
  useRefresh(() => needs.refresh(), EVERY_MS, told);
  const rows = needs.rows.value;
  return (
    <>
      {needs.problem.value ? <p class="wrong" role="alert">{needs.problem.value}</p> : null}
      {rows && !rows.length ? <p class="hint">{t("Nothing needs you.")}</p> : null}
      <ul id="needs-list" aria-label={t("What needs you")}>
        {(rows ?? []).map((row) => <NeedView key={row.key} row={row} agent={list.rows.value.get(row.need.session)?.agent} />)}
      </ul>
    </>
  );
}

const HEADS: Record<Need["why"], string> = {
  approval: t("asks for permission"),
  question: t("asks"),
  failed: t("its turn failed"),
  silent: t("its turn ended without a word"),
  held: t("nobody knows whether this arrived"),
  limit: t("waits for a limit"),
};

function NeedView({ row, agent }: { row: NeedRow; agent: string | undefined }) {
  const { need, over, wrong } = row;
  const root = useRef<HTMLLIElement>(null);
  const isHeld = root.current?.contains(document.activeElement);
  useLayoutEffect(() => {
    if (isHeld && !root.current?.contains(document.activeElement)) root.current?.querySelector("a")?.focus({ preventScroll: true });
  });
  useLayoutEffect(() => () => passFocus(root.current), []);
  return (
    <li ref={root} class="need" data-why={need.why} data-state={over === null ? "open" : "over"}>
      <p class="head">
        <a href={`#/s/${encodeURIComponent(need.session)}`}>{called({ title: need.title, key: need.session })}</a>
        <span>{[agent && plainly(agent), HEADS[need.why]].filter(Boolean).join(" · ")}</span>
        <Time at={need.at} />
      </p>
      <Guard data={row}>
        <Asked row={row} agent={agent} />
      </Guard>
      {over !== null && !need.item ? <p class="outcome" role="status">{over}</p> : null}
      {wrong ? <p class="wrong" role="alert">{plainly(wrong)}</p> : null}
    </li>
  );
}

/** Gives the focus of a row that goes to the next one, or to the heading. */
function passFocus(row: HTMLLIElement | null): void {
  if (!row?.contains(document.activeElement)) return;
  const next = (row.nextElementSibling ?? row.previousElementSibling)?.querySelector<HTMLElement>("a");
  (next ?? document.querySelector<HTMLElement>("#view h1"))?.focus({ preventScroll: true });
}

function Asked({ row, agent }: { row: NeedRow; agent: string | undefined }) {
  const { why, error, until, tz, limit } = row.need;
  if (why === "approval" || why === "question") return <Request row={row} agent={agent} />;
  if (why === "held") return <HeldMessage row={row} />;
  if (why === "limit") {
    const used = { when: zonedTime(until ?? 0, tz), measure: limit?.measure ?? "", who: plainly(limit?.subject || t("all")) };
    return <p>{t("A message waits until {when}: the limit of {measure} for {who} is used up.", used)}</p>;
  }
  return (
    <>
      {error ? <pre class="text" tabIndex={0}>{openly(error)}</pre> : null}
      {row.over === null ? <Retry row={row} /> : null}
    </>
  );
}

function Request({ row, agent }: { row: NeedRow; agent: string | undefined }) {
  const item = row.need.item!;
  const options = item.options ?? [];
  const answer = (_: number, id: string) => {
    const option = options.find((one) => idOf(one) === id);
    return needs.answer(row, id, option ? nameOf(option) : id);
  };
  const context = { agent: () => agent ?? t("Agent"), answer };
  const card = (
    <div class={`item request ${item.kind}`} data-state="open">
      <RequestView item={item} context={context} over={row.over} />
    </div>
  );
  if (item.kind === "permission") return card;
  return (
    <>
      <Rich text={questionText(item.text, item)} live={false} />
      {options.length || row.over !== null ? card : null}
      {row.over === null ? <FreeAnswer row={row} alone={!options.length} /> : null}
    </>
  );
}

function FreeAnswer({ row, alone }: { row: NeedRow; alone: boolean }) {
  const [text, setText] = useState("");
  const [busy, setBusy] = useState(false);
  const answer = async (event: Event) => {
    event.preventDefault();
    if (busy || !text.trim()) return;
    setBusy(true);
    if (!(await needs.answer(row, text, text))) setBusy(false);
  };
  return (
    <form class="free" onSubmit={answer}>
      <input aria-label={t("Answer in your own words")} placeholder={alone ? t("Your answer") : t("Or in your own words")} dir="auto" autocomplete="off" value={text} onInput={(event) => setText(event.currentTarget.value)} />
      <button type="submit" aria-disabled={busy || !text.trim() ? "true" : undefined}>{t("Send")}</button>
    </form>
  );
}

function HeldMessage({ row }: { row: NeedRow }) {
  const { parts, need, over } = row;
  const first = parts[0] ?? need.part!;
  const one: Delivery = { to: first.dest, state: "held", part: first.id, parts: parts.length, held: parts.map(({ id }) => id), error: need.error, over: first.over };
  const decide = (part: number, verdict: string) => needs.decide(row, part, verdict);
  return (
    <>
      <pre class="text" tabIndex={0}>{parts.map(({ text, kind }) => openly(text) || `(${kind})`).join("")}</pre>
      {over === null && parts.length ? <Held one={one} context={{ decide }} place={row.key}><Line one={one} total={parts.length} /></Held> : null}
    </>
  );
}

function Retry({ row }: { row: NeedRow }) {
  const [busy, setBusy] = useState(false);
  const retry = async () => {
    if (busy) return;
    setBusy(true);
    if (!(await needs.retry(row))) setBusy(false);
  };
  return (
    <div class="options">
      <button type="button" title={t("Run the turn again (/retry)")} aria-disabled={busy ? "true" : undefined} onClick={retry}>{t("Try again")}</button>
      {row.need.turn ? <StoryButton of={row.need.turn} /> : null}
    </div>
  );
}
