// An agent's text as Markdown, block by block: while it streams, only its last block is rendered again.

import type { VNode } from "preact";
import { memo } from "preact/compat";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { type Blocks, linkAddresses, mayHaveAddress, renderBlocks } from "../markdown.ts";
import { morphUnderReader } from "../morph.ts";
import { onDemand } from "../on_demand.ts";
import { colouredNodes, markdownNodes, mathNodes } from "../sanitised.ts";
import { t } from "../texts.ts";
import type { Row } from "../transcript.ts";
import { type Part, partsOf } from "./disclosures.ts";
import { isPartOpened, setPartOpened } from "./opened.ts";

const MAX_COLOURED_CHARS = 50_000;
const MAX_COLOURED_LIVE_CHARS = 4_000; // of code that still grows: it is coloured anew with each piece
const MAX_KEPT_BLOCKS = 500; // of texts whose rows were shown lately

type Highlight = (code: string, language: string) => string | null;
const highlighter = onDemand(() => import("../highlight.ts"));
const formulas = onDemand(() => import("../math.ts"));
const extras = onDemand(() => import("./extras.ts"));
const addresses = onDemand(async () => {
  const { finder } = await import("../addresses.ts");
  linkAddresses(finder);
  lately.clear(); // it was rendered without them
  return finder;
});
const HAS_EXTRAS = /\[\^|<li>\s*(?:<p>)?\[[ xX]\]\s/;

const lately = new Map<string, Blocks>();

/** The blocks of a final text: a row that comes into sight again is not rendered anew. */
function blocksOfFinal(text: string, previous: Blocks | undefined): Blocks {
  const known = lately.get(text);
  lately.delete(text);
  const blocks = known ?? renderBlocks(text, previous);
  lately.set(text, blocks);
  if (lately.size > MAX_KEPT_BLOCKS) lately.delete(lately.keys().next().value!);
  return blocks;
}

interface RichProps {
  /** The row that keeps what the reader opened in the text. */
  row?: Row;
  text: string;
  live: boolean;
}

export function Rich({ row, text, live }: RichProps) {
  const last = useRef<{ blocks?: Blocks; linked?: unknown }>({});
  const hasAddress = mayHaveAddress(text);
  const linked = hasAddress && addresses.part.value;
  const blocks = useMemo(() => {
    const previous = last.current.linked === linked ? last.current.blocks : undefined;
    return live ? renderBlocks(text, previous) : blocksOfFinal(text, previous);
  }, [text, live, linked]);
  last.current = { blocks, linked };
  useEffect(() => void (hasAddress && addresses.want()), [hasAddress, text]);
  const extra = extras.part.value;
  const notes = useMemo(() => extra?.notesOf(text) ?? "", [text, extra]);
  return (
    <div class="body rich" onClick={copyCode}>
      {draw(partsOf(blocks.html, live))}
    </div>
  );

  function draw(parts: Part[]): VNode[] {
    return parts.map((part) =>
      "html" in part ? (
        <Block key={part.key} html={part.html} grows={live && parseInt(part.key) >= blocks.closedCount} notes={notes} />
      ) : (
        <details key={part.key} class="disclosure" open={isPartOpened(row, part.key) ?? part.isOpen} onToggle={({ currentTarget }) => setPartOpened(row, part.key, currentTarget.open)}>
          <summary>
            <i aria-hidden>{part.tags[0]}</i>
            <Block html={part.summary} grows={false} notes={notes} />
            <i aria-hidden>{part.tags[1]}</i>
          </summary>
          {draw(part.parts)}
          <i aria-hidden>{part.tags[2]}</i>
        </details>
      ),
    );
  }
}

const Block = memo(function Block({ html, grows, notes }: { html: string; grows: boolean; notes: string }) {
  const node = useRef<HTMLDivElement>(null);
  const colour = highlighter.part.value?.highlight ?? null;
  const math = formulas.part.value;
  const extra = HAS_EXTRAS.test(html) ? extras : null;
  const drawExtras = extra?.part.value?.drawExtras;
  useLayoutEffect(() => {
    const fill = (): void => {
      const fresh = markdownNodes(html);
      if (fresh.querySelector(".math")) math ? math.drawMath(fresh, mathNodes) : formulas.want();
      drawExtras ? drawExtras(fresh, notes) : extra?.want();
      dress(fresh, colour, grows ? MAX_COLOURED_LIVE_CHARS : MAX_COLOURED_CHARS);
      if (!node.current!.firstChild) node.current!.append(fresh);
      else if (!morphUnderReader(node.current!, fresh)) document.addEventListener("selectionchange", fill, { once: true });
    };
    fill();
    return () => document.removeEventListener("selectionchange", fill);
  }, [html, colour, math, drawExtras, notes, grows]);
  return <div class="block" ref={node} />;
});

/** Gives code its language, colours and a Copy button, and lets wide tables scroll. */
function dress(nodes: DocumentFragment, colour: Highlight | null, maxChars: number): void {
  for (const pre of nodes.querySelectorAll("pre")) {
    const code = pre.firstElementChild;
    const [, language = ""] = /(?:^| )language-(\S+)/.exec(code?.className ?? "") ?? [];
    const text = code?.textContent ?? "";
    pre.tabIndex = 0; // it scrolls, so the keyboard must reach it
    if (code && language && text.length < maxChars) {
      const html = colour?.(text, language.toLowerCase());
      if (html) code.replaceChildren(colouredNodes(html));
      else if (!colour) highlighter.want();
    }
    const bar = document.createElement("div");
    bar.className = "codebar";
    const name = document.createElement("span");
    name.textContent = language;
    bar.append(name);
    if (navigator.clipboard) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "tiny copycode";
      button.textContent = t("Copy");
      bar.append(button);
    }
    const box = document.createElement("div");
    box.className = "code";
    pre.replaceWith(box);
    box.append(bar, pre);
  }
  for (const table of nodes.querySelectorAll("table")) {
    const scroll = document.createElement("div");
    scroll.className = "wide";
    scroll.tabIndex = 0;
    table.replaceWith(scroll);
    scroll.append(table);
  }
}

async function copyCode(event: Event): Promise<void> {
  const button = (event.target as Element).closest(".copycode");
  const code = button?.closest(".code")?.querySelector("code");
  if (!button || !code) return;
  await navigator.clipboard.writeText(code.textContent ?? "");
  button.textContent = t("Copied");
  setTimeout(() => (button.textContent = t("Copy")), 1500);
}
