// An agent's Markdown as HTML, block by block. The rules are those of semel/channels/markdown.py: no character is lost
// (Law 8). What a CommonMark renderer would drop silently (tags, entities, link titles, surplus cells, ...) stays text.
// tests/http/test_page_markdown.py compares the two. Only the page draws formulas (math_rules.ts).
// The HTML is not sanitised yet (sanitised.ts does that).

import type { LinkifyIt } from "linkify-it";
import MarkdownIt, { type Token } from "markdown-it";
import { addMath } from "./math_rules.ts";
import { openly } from "./text.ts";

const MAX_FORMATTED_CHARS = 100_000;
const MAX_NESTING = 40;
const LANGUAGE = /^[\p{L}\p{N}_+#.-]{1,20}$/u;
const SCHEMES = new Set(["http", "https", "mailto", "tel", "xmpp", "matrix"]);
const UNSETTLED_LINES = 2;
const SURPLUS = "cells"; // key of a token's metadata under which a table row's surplus cells are kept

/** A text as blocks of HTML. Blocks before the last one stay as they are while text joins the end. */
export interface Blocks {
  html: string[];
  /** The text up to the last block, and how many blocks it is. */
  closed: string;
  closedCount: number;
  /** Whether the text nests too deep, or is too long, to be formatted: then it is one plain block. */
  plain: boolean;
}

type RuleBlock = (state: BlockState, start: number, end: number, silent: boolean) => boolean;
type BlockState = { src: string; tokens: Token[]; bMarks: number[]; tShift: number[]; eMarks: number[] };
type State = { tokens: Token[]; Token: new (type: string, tag: string, nesting: -1 | 0 | 1) => Token };

const md = new MarkdownIt("commonmark", { html: false, linkify: true, breaks: true, maxNesting: MAX_NESTING });
linkAddresses(md.linkify);
md.enable(["table", "strikethrough", "linkify"]).disable("reference");
md.normalizeLinkText = (link) => link;
const table = md.block.ruler.getRules("")[0] as RuleBlock; // the first of the rules is that of tables
md.block.ruler.at("table", losslessTable, { alt: ["paragraph", "reference"] });
addMath(md);
md.core.ruler.after("block", "whole_lists", (state) => splitLists(state as unknown as State));
md.core.ruler.after("inline", "whole_rows", (state) => showSurplusCells(state as unknown as State));
md.core.ruler.after("whole_rows", "whole_fences", (state) => showFenceInfo(state as unknown as State));
md.core.ruler.before("text_join", "as_written", (state) => restoreEscapes((state as unknown as State).tokens));
md.core.ruler.push("whole_links", (state) => showLinkTitles(state as unknown as State));
md.core.ruler.push("followed_links", (state) => writeOutLinks(state as unknown as State));
md.renderer.rules.image = (tokens, index) => {
  const token = tokens[index]!;
  const label = (token.children ?? []).map((child) => child.content).join("") || attribute(token, "src");
  return `<a href="${md.utils.escapeHtml(attribute(token, "src"))}">${md.utils.escapeHtml(`[image: ${label}]`)}</a>`;
};
for (const rule of ["th_open", "td_open"]) {
  md.renderer.rules[rule] = (tokens, index, options, _env, renderer) => {
    const token = tokens[index]!;
    const [, side] = /text-align:(\w+)/.exec(attribute(token, "style")) ?? [];
    token.attrs = side ? [["align", side]] : null; // a style attribute is against the page's policy
    return renderer.renderToken(tokens, index, options);
  };
}

/** Makes links of the bare addresses in texts that are rendered from now on. */
export function linkAddresses(linkify: LinkifyIt): void {
  md.linkify = linkify.set({ fuzzyLink: false, fuzzyEmail: false, fuzzyIP: false });
}

/** Whether a text may have a bare address. */
export const mayHaveAddress = (text: string): boolean => /\/\/|mailto:/i.test(text);

/** A text as blocks. `previous`: the blocks of the same text when it was shorter, of which the closed ones are kept. */
export function renderBlocks(raw: string, previous?: Blocks): Blocks {
  const text = openly(raw);
  if (text.length > MAX_FORMATTED_CHARS) return plainly(text);
  const goesOn = previous && !previous.plain && previous.closedCount > 0 && text.startsWith(previous.closed);
  const kept = goesOn ? previous.closed : "";
  const html = goesOn ? previous.html.slice(0, previous.closedCount) : [];
  const rest = text.slice(kept.length);
  const tokens = md.parse(rest, {});
  if (tokens.some((token) => token.level >= MAX_NESTING - 1)) return plainly(text);
  const groups = blocksOf(tokens);
  const last = firstOpenGroup(groups, rest.split("\n").length - 1);
  const line = groups[last]?.[0]?.map?.[0] ?? 0;
  html.push(...groups.map((group) => md.renderer.render(group, md.options, {})));
  const closed = kept + rest.slice(0, lineStart(rest, line));
  return { html, closed, closedCount: html.length - groups.length + last, plain: false };
}

/** A text as one string of HTML. */
export const renderMarkdown = (text: string): string => renderBlocks(text).html.join("");

function plainly(text: string): Blocks {
  const lines = text.replace(/^\n+|\n+$/g, "").split("\n").map((line) => md.utils.escapeHtml(line));
  return { html: [`<p>${lines.join("<br>\n")}</p>\n`], closed: "", closedCount: 0, plain: true };
}

function lineStart(text: string, line: number): number {
  let place = 0;
  for (; line > 0; line--) place = text.indexOf("\n", place) + 1;
  return place;
}

/** The tokens of each block that is in no other. */
function blocksOf(tokens: Token[]): Token[][] {
  const groups: Token[][] = [];
  let depth = 0;
  for (const token of tokens) {
    if (depth === 0) groups.push([]);
    groups.at(-1)!.push(token);
    depth += token.nesting;
  }
  return groups;
}

/**
 * The first of the groups that more text at the end may still change. The last line may turn out as something else, such
 * as a rule that becomes text, and so may a table whose second line it is; then the block before goes on. A list may
 * have been split, and the info of a fence stands apart: these are one block of the text.
 */
function firstOpenGroup(groups: Token[][], lastLine: number): number {
  const lines = (place: number) => groups[place]?.[0]?.map ?? [0, 0];
  let open = groups.length - 1;
  while (open > 0 && lines(open)[0] > lastLine - UNSETTLED_LINES) open--;
  while (open > 0 && (lines(open)[1] === lines(open - 1)[1] || lines(open)[0] === lines(open - 1)[0])) open--;
  return Math.max(0, open);
}

// ---------------------------------------------------------------- blocks

/** Parses a table, and keeps a row's cells beyond the columns of its head in the metadata of its last cell. */
function losslessTable(...args: Parameters<RuleBlock>): boolean {
  const [state] = args;
  const previous = state.tokens.length;
  if (!table(...args)) return false;
  const tokens = state.tokens.slice(previous);
  const columns = tokens.filter((token) => token.type === "th_open").length;
  let line = 0;
  let lastCell: Token | undefined;
  for (const token of tokens) {
    if (token.type === "tr_open") line = token.map?.[0] ?? 0;
    if (token.type === "inline") lastCell = token;
    if (token.type !== "tr_close" || !lastCell) continue;
    const row = state.src.slice(state.bMarks[line]! + state.tShift[line]!, state.eMarks[line]);
    const extra = cellsOf(row).slice(columns);
    if (extra.length) lastCell.meta = { ...lastCell.meta, [SURPLUS]: extra.map((cell) => ` | ${cell}`).join("") };
  }
  return true;
}

function cellsOf(row: string): string[] {
  const cells = splitEscaped(row.trim());
  const inner = cells[0] === "" ? cells.slice(1) : cells;
  return (inner.at(-1) === "" ? inner.slice(0, -1) : inner).map((cell) => cell.trim());
}

/** As in markdown-it: splits at each `|` that no backslash escapes. */
function splitEscaped(row: string): string[] {
  const cells: string[] = [];
  let escaped = false;
  let from = 0;
  let cell = "";
  for (let place = 0; place < row.length; place++) {
    const sign = row[place];
    if (sign === "|" && !escaped) {
      cells.push(cell + row.slice(from, place));
      cell = "";
      from = place + 1;
    } else if (sign === "|") {
      cell += row.slice(from, place - 1);
      from = place;
    }
    escaped = sign === "\\";
  }
  return [...cells, cell + row.slice(from)];
}

/** Splits an ordered list before each item whose number does not follow its predecessor's. */
function splitLists(state: State): void {
  const tokens: Token[] = [];
  const open: { opening: Token; expected: number | null }[] = [];
  for (const token of state.tokens) {
    const list = open.at(-1);
    if (token.type === "ordered_list_open" || token.type === "bullet_list_open") {
      open.push({ opening: token, expected: null });
    } else if (token.type === "ordered_list_close" || token.type === "bullet_list_close") {
      open.pop();
    } else if (token.type === "list_item_open" && list?.opening.type === "ordered_list_open") {
      const number = Number(token.info);
      if (list.expected !== null && number !== list.expected) {
        const { opening } = list;
        const closing = make(state, "ordered_list_close", "ol", -1, { level: opening.level, block: true, markup: opening.markup });
        const map: [number, number] = [token.map?.[0] ?? 0, opening.map?.[1] ?? 0];
        const fresh = make(state, "ordered_list_open", "ol", 1, {
          level: opening.level, block: true, markup: opening.markup, map, attrs: [["start", String(number)]],
        });
        tokens.push(closing, fresh);
        list.opening = fresh;
      }
      list.expected = number + 1;
    }
    tokens.push(token);
  }
  state.tokens = tokens;
}

function make(state: State, type: string, tag: string, nesting: -1 | 0 | 1, fields: Partial<Token>): Token {
  return Object.assign(new state.Token(type, tag, nesting), fields);
}

/** Moves the info string of a code fence into a paragraph above the code, unless it is only a language. */
function showFenceInfo(state: State): void {
  state.tokens = state.tokens.flatMap((token) => {
    if (token.type !== "fence") return [token];
    const words = token.info.split(/\s+/).filter(Boolean);
    const language = words[0] && LANGUAGE.test(words[0]) ? words[0] : "";
    const shown = words.length === 0 || (words.length === 1 && language) ? "" : token.info.trim();
    token.info = language;
    if (!shown) return [token];
    const [line] = token.map ?? [0];
    const common = { block: true, map: [line, line + 1] as [number, number] };
    return [
      make(state, "paragraph_open", "p", 1, { ...common, level: token.level }),
      make(state, "inline", "", 0, { ...common, level: token.level + 1, content: shown, children: [text(state, shown)] }),
      make(state, "paragraph_close", "p", -1, { block: true, level: token.level }),
      token,
    ];
  });
}

function showSurplusCells(state: State): void {
  for (const token of state.tokens) {
    const surplus = token.meta?.[SURPLUS] as string | undefined;
    if (surplus && token.children) token.children.push(text(state, surplus));
  }
}

// ---------------------------------------------------------------- inside a line

/** An attribute of a token as text; "" if it has none. */
const attribute = (token: Token, name: string): string => String(token.attrGet(name) ?? "");

const text = (state: State, content: string): Token => make(state, "text", "", 0, { content });

/**
 * Undoes the decoding of HTML entities and of escaped backslashes and brackets, so that they are shown as they were
 * written. In a link's text, brackets need the escape: there it is markup.
 */
function restoreEscapes(tokens: Token[]): void {
  let isInLink = false;
  for (const token of tokens) {
    if (token.type === "link_open" || token.type === "link_close") isInLink = token.nesting === 1;
    const isKept = token.markup === "\\\\" || (/^\\[[\]]$/.test(token.markup) && !isInLink);
    if (token.type === "text_special" && (token.info === "entity" || isKept)) token.content = token.markup;
    if (token.children) restoreEscapes(token.children);
  }
}

/** Appends a link's title to its text, and shows the address of a link without text. */
function showLinkTitles(state: State): void {
  for (const token of state.tokens) if (token.children) token.children = appendTitles(state, token.children);
}

function appendTitles(state: State, children: Token[]): Token[] {
  const pieces: Token[] = [];
  let opening: Token | undefined;
  let empty = false;
  for (const child of children) {
    if (child.type === "image") {
      const title = takeAttribute(child, "title");
      const label = child.content.trim() ? child.content : attribute(child, "src");
      child.children = [text(state, label + (title ? ` "${title}"` : ""))];
    }
    if (child.type === "link_close" && opening) {
      const title = takeAttribute(opening, "title");
      const addition = (empty ? attribute(opening, "href") : "") + (title ? ` "${title}"` : "");
      if (addition) pieces.push(text(state, addition));
    } else if (child.type === "link_open") {
      opening = child;
      empty = true;
    } else if (child.content.trim() || child.children?.length) {
      empty = false;
    }
    pieces.push(child);
  }
  return pieces;
}

function takeAttribute(token: Token, name: string): string {
  const value = attribute(token, name);
  token.attrs = token.attrs?.filter(([each]) => each !== name) ?? null;
  return value;
}

/** Writes out the addresses of links and images that the page does not follow: "text (address)". */
function writeOutLinks(state: State): void {
  for (const token of state.tokens) if (token.children) token.children = spellOut(state, token.children);
}

const isFollowed = (address: string): boolean => SCHEMES.has(address.slice(0, Math.max(0, address.indexOf(":"))).toLowerCase());

function spellOut(state: State, children: Token[]): Token[] {
  const out: Token[] = [];
  const open: { address: string; stays: boolean; start: number }[] = [];
  for (const child of children) {
    if (child.type === "link_open") {
      const href = attribute(child, "href");
      const stays = isFollowed(href);
      const bare = stays || child.markup === "linkify" || child.markup === "autolink";
      open.push({ address: bare ? "" : href, stays, start: out.length });
      if (stays) out.push(child);
    } else if (child.type === "link_close") {
      const { address, stays, start } = open.pop() ?? { address: "", stays: true, start: 0 };
      const shown = out.slice(start).map((each) => each.content).join("");
      if (address && address !== shown && address !== `mailto:${shown}`) out.push(text(state, ` (${address})`));
      if (stays) out.push(child);
    } else if (child.type === "image" && !isFollowed(attribute(child, "src"))) {
      const source = attribute(child, "src");
      const label = (child.children ?? []).map((each) => each.content).join("");
      out.push(text(state, label + (source && source !== label ? ` (${source})` : "")));
    } else {
      out.push(child);
    }
  }
  return out;
}
