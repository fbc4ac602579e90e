// The rows of the open session. Of a long one, only those near the screen are in the document.

import { signal } from "@preact/signals";
import { Component, type ComponentChildren, type Ref, render } from "preact";
import { flushSync, forwardRef, memo } from "preact/compat";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { Virtualizer, type VirtualizerHandle } from "virtua";
import { type Row, type Transcript, isEntry } from "../transcript.ts";
import type { Entry, Item } from "../wire.ts";
import { CallFolder, turned } from "./calls.ts";
import type { RowContext } from "./context.ts";
import { EntryView, entryClass } from "./entry.tsx";
import { ItemView, itemClass } from "./item.tsx";
import { t } from "../texts.ts";

const MAX_WHOLE = 400; // rows up to which all are in the document, for the browser's own search
const BUFFER_PX = 600;

/** The rows of one session in the document. */
export class RowList {
  private view = signal<Transcript | null>(null);
  private handle: { current: VirtualizerHandle | null } = { current: null };
  private folder = new CallFolder();
  private root: HTMLElement;

  /** `isAtEnd`: whether the reader follows the end of the conversation. */
  constructor(root: HTMLElement, scroller: HTMLElement, context: RowContext, isAtEnd: () => boolean) {
    this.root = root;
    render(<Rows view={this.view} folder={this.folder} isAtEnd={isAtEnd} context={context} scroller={scroller} handle={this.handle} />, root);
  }

  select(view: Transcript): void {
    this.draw(() => (this.view.value = view));
  }

  /** Changes the data, and the document with it before this returns. A row that loses the focus passes it on. */
  draw(update: () => void): void {
    const held = this.root.contains(document.activeElement) ? document.activeElement : null;
    const key = held?.closest<HTMLElement>("[data-key]")?.dataset.key;
    flushSync(update);
    if (key && !held!.isConnected) this.passOn(key);
  }

  private passOn(key: string): void {
    const row = this.view.peek()?.rows.get(key);
    const node = this.nodeOf(row?.call?.key ?? key);
    const target = node?.querySelector<HTMLElement>(row?.call ? "summary" : "button, .label, summary") ?? node;
    target?.focus({ preventScroll: true });
  }

  /** Focuses the first button of the next request, question or held part after the focus. Returns whether there is one. */
  focusOpen(): boolean {
    const open = [...this.root.querySelectorAll<HTMLElement>('.request[data-state="open"] .options, .decide')];
    const at = open.findIndex((one) => one.contains(document.activeElement));
    const button = open[(at + 1) % open.length]?.querySelector("button");
    button?.focus();
    button?.scrollIntoView({ block: "nearest" });
    return button !== undefined && button !== null;
  }

  nodeOf(key: string): HTMLElement | null {
    return this.root.querySelector(`[data-key="${CSS.escape(key)}"]`);
  }

  /** Scrolls a row to the middle of the screen, and calls `found` with its node once it is in the document. */
  reveal(row: Row, found: (node: HTMLElement) => void): void {
    const index = this.folder.rows.indexOf(row);
    if (index < 0) return;
    this.handle.current?.scrollToIndex(index, { align: "center" });
    const look = (tries: number): void => {
      const node = this.nodeOf(row.key);
      if (node) found(node);
      else if (tries) requestAnimationFrame(() => look(tries - 1));
    };
    look(60);
  }
}

const NO_ROWS: readonly Row[] = [];

interface RowsProps {
  view: { value: Transcript | null };
  folder: CallFolder;
  isAtEnd: () => boolean;
  context: RowContext;
  scroller: HTMLElement;
  handle: { current: VirtualizerHandle | null };
}

const List = forwardRef(function List(props: object, ref: Ref<HTMLOListElement>) {
  return <ol id="rows" {...props} ref={ref} />;
});

function Rows({ view, folder, isAtEnd, context, scroller, handle }: RowsProps) {
  const scrollRef = useRef(scroller);
  const transcript = view.value;
  const all = transcript?.shown.value ?? NO_ROWS;
  const count = turned.value;
  const shown = useMemo(() => folder.fold(all, (run) => isAtEnd() && !heldRows(run, scroller).length), [all, count]);
  const start = margin.value;
  useLayoutEffect(() => measureMargin(scroller));
  return (
    <Virtualizer
      key={transcript}
      ref={handle as never}
      as={List as never}
      item="li"
      data={shown}
      scrollRef={scrollRef}
      startMargin={start}
      shift={transcript?.prepended.value ?? false}
      bufferSize={BUFFER_PX}
      keepMounted={shown.length <= MAX_WHOLE ? shown.map((_, place) => place) : heldRows(shown, scroller)}
    >
      {(row: Row, index: number) => <RowView key={row.key} row={row} before={shown[index - 1]} isLast={index === shown.length - 1} context={context} /> as never}
    </Virtualizer>
  );
}

const margin = signal(0); // pixels of the scroller before the rows

function measureMargin(scroller: HTMLElement): void {
  const rows = scroller.querySelector<HTMLElement>("#rows");
  if (rows) margin.value = Math.round(rows.getBoundingClientRect().top - scroller.getBoundingClientRect().top + scroller.scrollTop);
}

/** The places of the rows in which the reader's focus or selection is: they stay in the document. */
function heldRows(shown: readonly Row[], scroller: HTMLElement): number[] {
  const selection = window.getSelection();
  const nodes = [document.activeElement, selection?.anchorNode, selection?.focusNode];
  const keys = nodes.map((node) => {
    const element = node instanceof Element ? node : node?.parentElement;
    return element && scroller.contains(element) ? element.closest<HTMLElement>("[data-key]")?.dataset.key : undefined;
  });
  const held = new Set(keys.filter(Boolean));
  return held.size ? shown.flatMap((row, place) => (held.has(row.key) ? [place] : [])) : [];
}

interface RowProps {
  row: Row;
  before: Row | undefined;
  isLast: boolean;
  context: RowContext;
}

const RowView = memo(function RowView({ row, before, isLast, context }: RowProps) {
  const data = row.data.value;
  return (
    <Guard data={data}>
      <Drawn row={row} data={data} before={before} isLast={isLast} context={context} />
    </Guard>
  );
});

function Drawn({ row, data, before, isLast, context }: RowProps & { data: Entry | Item }) {
  const place = [
    row.isAgents() && !before?.isAgents() ? "begins" : "",
    isLast ? "last" : "",
    before && !isEntry(before.data.peek()) ? "below-item" : "",
  ].filter(Boolean).join(" ");
  if (isEntry(data)) {
    return (
      <div class={`${entryClass(data)} ${place}`} data-key={row.key} tabIndex={-1}>
        <EntryView row={row} entry={data} context={context} />
      </div>
    );
  }
  return (
    <div class={`${itemClass(data)} ${place}`} data-key={row.key} data-status={data.kind === "tool" ? data.status || "pending" : undefined} data-state={data.state}>
      <ItemView row={row} item={data} context={context} />
    </div>
  );
}

/** Replaces a row that cannot be drawn. Drawing is tried again when its data changes. */
export class Guard extends Component<{ data: unknown; children: ComponentChildren }, { failed: unknown }> {
  static override getDerivedStateFromError(): { failed: true } {
    return { failed: true };
  }

  override componentDidCatch(error: unknown): void {
    console.warn("a row cannot be drawn", error);
    this.setState({ failed: this.props.data });
  }

  override render(): ComponentChildren {
    const { failed } = this.state;
    if (failed === this.props.data || failed === true) return <div class="item notice broken">{t("This could not be drawn.")}</div>;
    return this.props.children;
  }
}
