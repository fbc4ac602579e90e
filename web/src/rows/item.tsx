// The rows that are not transcript entries: tool calls, thoughts, plans and notices.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { readText } from "../api.ts";
import { morphUnderReader } from "../morph.ts";
import { isNarrow } from "../narrow.ts";
import { onDemand } from "../on_demand.ts";
import { colouredNodes } from "../sanitised.ts";
import { inputText, openly, plainly, tookText } from "../text.ts";
import type { Row } from "../transcript.ts";
import type { Item } from "../wire.ts";
import { turnCalls, turned } from "./calls.ts";
import type { RowContext } from "./context.ts";
import { isOpened, setOpened } from "./opened.ts";
import { Coded, Diffs, Files, Whose } from "./parts.tsx";
import { RequestView, outcomeOf } from "./request.tsx";
import { type Output as Whole, lastLine, shortened } from "./shortened.ts";
import { ownToolWords } from "./wording.ts";
import { locale, t, tWord } from "../texts.ts";

interface ItemProps {
  row: Row;
  item: Item;
  context: RowContext;
}

export function ItemView({ row, item, context }: ItemProps) {
  switch (item.kind) {
    case "tool":
      return <ToolView row={row} item={item} context={context} />;
    case "thought":
      return (
        <Folding row={row} item={item} context={context} label={item.live ? t("Thinking") : t("Thought")} state="">
          <LongOutput whole={{ head: item.text || "", tail: "", left: 0 }} />
        </Folding>
      );
    case "plan":
      return <PlanView item={item} context={context} />;
    case "calls":
      return <CallsView row={row} item={item} context={context} />;
    case "notice":
      return <Coded text={item.text || item.title || ""} />;
    default:
      return <RequestView item={item} context={context} />;
  }
}

/** A line that can be opened, for tool calls and thoughts. */
function Folding({ row, item, context, label, name, isPlain = false, last = "", state, onToggle, children }: ItemProps & { label: string; name?: string; isPlain?: boolean; last?: string; state: string; onToggle?: (isOpen: boolean) => void; children: preact.ComponentChildren }) {
  return (
    <>
      <Whose context={context} />
      <details
        open={isOpened(row)}
        onToggle={({ currentTarget: { open } }) => {
          setOpened(row, open);
          onToggle?.(open);
        }}
      >
        <summary>
          <span class="sign" aria-hidden="true" />
          <span class={isPlain ? "label plain" : "label"} title={name}>{label}</span>
          {last ? <span class="last" aria-hidden="true">{last}</span> : null}
          <span class="state">{state}</span>
          <span class="took">{tookText(item.at, item.ended_at)}</span>
        </summary>
        <div class="inside">{children}</div>
      </details>
    </>
  );
}

/** The line of a run of tool calls. They stand below it once it is opened. */
function CallsView({ row, item, context }: ItemProps) {
  void turned.value;
  return (
    <>
      <Whose context={context} />
      <button type="button" aria-expanded={isOpened(row) ? "true" : "false"} onClick={() => turnCalls(row)}>
        {t("{count} tool calls", { count: item.calls ?? 0 })}
        <span class="state">{item.failed ? t("{count} failed", { count: item.failed }) : ""}</span>
        <span class="took">{tookText(item.at, item.ended_at)}</span>
      </button>
    </>
  );
}

const STATUS: Record<string, string> = {
  pending: t("waiting"),
  running: t("running"),
  done: "",
  failed: t("failed"),
  cancelled: t("cancelled"),
  "no result": t("no result"),
};

function ToolView({ row, item, context }: ItemProps) {
  const request = row.request.value?.data.value as Item | undefined;
  const input = inputText(item.input);
  const words = ownToolWords(item);
  const [isOpen, setOpen] = useState(isOpened(row));
  const coloured = useColoured(item, context, isOpen);
  const hasMore = Boolean(item.files?.length || item.diffs?.length);
  return (
    <Folding row={row} item={item} context={context} label={words ?? plainly(item.title || item.name || t("tool"))} isPlain={words !== null} name={plainly(item.name || item.title || "tool")} last={item.status === "running" && !isOpen ? lastLine(item.tail || item.text || "") : ""} state={stateOf(item, request)} onToggle={setOpen}>
      {input !== "" && input !== item.title ? <LongOutput kind="input" whole={{ head: input, tail: "", left: 0 }} /> : null}
      <div class="diffs">
        <Diffs diffs={item.diffs} />
      </div>
      <LongOutput whole={coloured === null ? atLineEnds(item) : { head: coloured, tail: "", left: 0 }} href={item.gap ? context.output(item.id) : undefined} isCut={item.truncated && !item.tail} />
      {!item.text && !item.tail && !input && !hasMore && !item.live ? <p class="none">{t("no output")}</p> : null}
      {item.files?.length ? <div class="files"><Files files={item.files} /></div> : null}
    </Folding>
  );
}

const MAX_COLOURED_CHARS = 200_000; // of an output that is loaded again for its colours

/** The whole output of a call with its colours, once the call has ended and is opened; null: without colours. */
function useColoured(item: Item, context: RowContext, isOpen: boolean): string | null {
  const [output, setOutput] = useState<string | null>(null);
  const size = (item.text?.length ?? 0) + (item.gap ?? 0) + (item.tail?.length ?? 0);
  const isOver = item.status !== "running" && item.status !== "pending";
  const isWanted = Boolean(item.coloured) && isOver && isOpen && size <= MAX_COLOURED_CHARS;
  useEffect(() => {
    if (!isWanted) return setOutput(null);
    let isStale = false;
    void readText(`${context.output(item.id)}?colours=1`).then((text) => isStale || setOutput(text));
    return () => void (isStale = true);
  }, [isWanted, item.id, item.text, item.tail, item.gap]);
  return isWanted ? output : null;
}

function stateOf(item: Item, request: Item | undefined): string {
  const status = item.status || "pending";
  const exit = item.exit !== undefined && item.exit !== null && item.exit !== 0 ? t("exit {code}", { code: item.exit }) : "";
  const printed = item.text || item.tail || item.files?.length;
  const silent = status === "done" && item.tool_kind === "execute" && !exit && !printed;
  const outcome = [silent ? t("done, no output") : STATUS[status] ?? status, exit].filter(Boolean).join(", ");
  return [outcome, request && outcomeOf(request)].filter(Boolean).join(" · ");
}

/** What the page has of a long output: whole lines of its head and tail. */
function atLineEnds(item: Item): Whole {
  let head = item.text || "";
  let tail = item.tail || "";
  let left = item.gap ?? 0;
  if (typeof left === "number" && left > 0 && tail) {
    const end = head.lastIndexOf("\n") + 1;
    const start = tail.indexOf("\n") + 1;
    if (end > 0) [left, head] = [left + head.length - end, head.slice(0, end)];
    if (start > 0 && start < tail.length) [left, tail] = [left + start, tail.slice(start)];
  }
  return { head, tail, left };
}

interface LongOutputProps {
  whole: Whole;
  kind?: "input" | "output";
  /** Where all of it is, if the page does not have it. */
  href?: string | undefined;
  isCut?: boolean | undefined;
}

/** An output, and in words what is not shown of it. On a phone, all that the page has of a long one is shown on demand. */
function LongOutput({ whole, kind = "output", href, isCut }: LongOutputProps) {
  const [isWanted, setWanted] = useState(false);
  const { head, tail, left } = isNarrow.value && !isWanted ? shortened(whole) : whole;
  const hasMore = left !== whole.left;
  const want = ({ currentTarget: button }: { currentTarget: HTMLElement }) => {
    button.closest("details")?.querySelector("summary")?.focus({ preventScroll: true }); // the button goes
    setWanted(true);
  };
  return (
    <>
      <Output text={head} kind={kind} />
      {left || isCut ? (
        <p class="gap">
          {left ? `${t("… {count} characters are not shown here …", { count: left.toLocaleString(locale) })} ` : t("… cut off by the agent …")}
          {hasMore ? <button type="button" class="tiny" onClick={want}>{t("Show more")}</button> : null}
          {href && !hasMore ? <a target="_blank" rel="noopener" href={href}>{t("Show all")}</a> : null}
        </p>
      ) : null}
      <Output text={tail} kind={kind} />
    </>
  );
}

const terminal = onDemand(() => import("../terminal.ts"));

/** Output of a program, with the colours that it has for a terminal. */
function Output({ text, kind }: { text: string; kind: string }) {
  const node = useRef<HTMLPreElement>(null);
  const coloured = text.includes("\u001b[");
  const colour = coloured ? terminal.part.value : null;
  useLayoutEffect(() => {
    if (!coloured || !node.current) return;
    if (!colour) terminal.want();
    const fresh = colour ? openlyColoured(colour.terminalHtml(text)) : new DocumentFragment();
    if (!colour) fresh.append(openly(text));
    if (!morphUnderReader(node.current, fresh)) node.current.replaceChildren(fresh);
  }, [text, coloured, colour]);
  if (!text) return null;
  return coloured ? <pre key="coloured" class={kind} tabIndex={0} ref={node} /> : <pre key="plain" class={kind} tabIndex={0}>{openly(text)}</pre>;
}

function openlyColoured(html: string): DocumentFragment {
  const nodes = colouredNodes(html);
  const walker = document.createTreeWalker(nodes, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const piece = walker.currentNode as Text;
    piece.data = openly(piece.data);
  }
  return nodes;
}

function PlanView({ item, context }: { item: Item; context: RowContext }) {
  return (
    <>
      <Whose context={context} />
      <p class="label">{t("Plan")}</p>
      <ol>
        {(item.entries || []).map((step, place) => (
          <li key={place} class={step.status || "pending"} aria-label={`${plainly(step.content)}: ${tWord(step.status || "pending")}`}>
            {plainly(step.content)}
          </li>
        ))}
      </ol>
    </>
  );
}

/** The classes of an item's row. */
export function itemClass(item: Item): string {
  const request = item.kind === "permission" || item.kind === "ask";
  const live = item.kind === "thought" && item.live;
  return ["item", request ? "request" : "", item.kind, live ? "live" : ""].filter(Boolean).join(" ");
}
