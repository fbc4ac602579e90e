// Where a formula is in Markdown: $$..$$, \[..\] and \(..\), and $..$ within a line if that can be nothing else: $ is money
// and begins names of variables, too. Within a line \[x\] is a bracket that begins no link, shown as it was written: there a
// formula has blanks around it. Chats and the terminal have the same rules (src/semel/channels/formulas.py). A formula stays as it was written
// until it is drawn (rows/rich.tsx); the other rules would take \ and _ out of it.

import type MarkdownIt from "markdown-it";
import type { Token } from "markdown-it";

type Markdown = InstanceType<typeof MarkdownIt>;

const ENDS: Record<string, string> = { $$: "$$", "\\[": "\\]", "\\(": "\\)" };
const IN_DOLLARS = /\$(?=[^\s$])((?:[^\\$\n]|\\[^\n]){1,300})(?<=\S)\$(?![\w$])/y;
const TEX_WORDS = /\\(?:text\w*|mathrm|operatorname)\s*\{[^{}]*\}|\\(?:[A-Za-z]+|[,;:!|{}])/g;
const SIGNS = /[_^=<>+]|\s[-*/]\s|^[A-Za-z]'*$|^[A-Za-z]\([^()]*\)$/;
const PRICE = /^\d[\d.,]*(?![\d.,A-Za-z])[^_^]*$/;
const MAX_CHARS = 4000; // of a formula; what is longer is text

interface InlineState {
  src: string;
  pos: number;
  posMax: number;
  noMathEnd?: Record<string, number>;
  push: (type: string, tag: string, nesting: 0) => Token;
}
interface BlockState {
  src: string;
  bMarks: number[];
  eMarks: number[];
  tShift: number[];
  sCount: number[];
  blkIndent: number;
  line: number;
  isEmpty: (line: number) => boolean;
  getLines: (begin: number, end: number, indent: number, keepLastLineEnd: boolean) => string;
  push: (type: string, tag: string, nesting: 0) => Token;
}

export function addMath(md: Markdown): void {
  const { escapeHtml } = md.utils;
  md.inline.ruler.before("escape", "math", inlineMath as never);
  md.block.ruler.before("fence", "math_block", blockMath as never, { alt: ["paragraph", "blockquote", "list"] });
  const span = (text: string): string => `<span class="math${isInline(text) ? "" : " display"}">${escapeHtml(text)}</span>`;
  md.renderer.rules.math = (tokens, index) => span(tokens[index]!.content);
  md.renderer.rules.math_block = (tokens, index) => `<p>${span(tokens[index]!.content)}</p>\n`;
  md.renderer.rules.math_begun = (tokens, index) => `<p>${escapeHtml(tokens[index]!.content).replaceAll("\n", "<br>\n")}</p>\n`;
}

/**
 * Where `closing` begins at or after `from`, without a backslash before it that belongs to it; -1 if nowhere near.
 * `after`: before there, it is known not to be.
 */
function endOf(text: string, closing: string, from: number, limit: number, after = from): number {
  const begin = Math.max(from, after);
  const near = text.slice(begin, Math.min(limit, from + MAX_CHARS + closing.length));
  for (let at = near.indexOf(closing); at >= 0; at = near.indexOf(closing, at + 1)) {
    let slashes = 0;
    while (begin + at - slashes > from && text[begin + at - slashes - 1] === "\\") slashes++;
    if (slashes % 2 === 0) return begin + at;
  }
  return -1;
}

function inlineMath(state: InlineState, silent: boolean): boolean {
  const opening = state.src.slice(state.pos, state.pos + 2);
  const closing = ENDS[opening];
  if (!closing) return opening.startsWith("$") && inlineDollars(state, silent);
  const start = state.pos + 2;
  const end = endOf(state.src, closing, start, state.posMax, state.noMathEnd?.[closing]);
  if (end < 0) (state.noMathEnd ??= {})[closing] = Math.min(state.posMax, start + MAX_CHARS); // the next search begins there
  const formula = state.src.slice(start, Math.max(start, end));
  const isPadded = /^\s.*\s$/s.test(formula);
  if (!formula.trim() || (opening === "$$" && formula !== formula.trim())) return false; // "the pid is $$ and $$ is"
  if (opening === "\\[" && !isPadded) return false; // a \[x\] that only shall be no link
  if (!silent) state.push("math", "", 0).content = opening + formula + closing;
  state.pos = end + 2;
  return true;
}

/** A formula between two single $: it has signs of one, and no words but those of TeX. */
function inlineDollars(state: InlineState, silent: boolean): boolean {
  if (/[\p{L}\p{N}$]/u.test(state.src[state.pos - 1] ?? "")) return false;
  IN_DOLLARS.lastIndex = state.pos;
  const [source, formula = ""] = IN_DOLLARS.exec(state.src.slice(0, state.posMax)) ?? [""];
  const rest = formula.replace(TEX_WORDS, " ");
  const isFormula = rest !== formula || (!PRICE.test(formula) && SIGNS.test(formula));
  if (!formula || /[A-Za-z]{3}/.test(rest) || !isFormula) return false;
  if (!silent) state.push("math", "", 0).content = source;
  state.pos += source.length;
  return true;
}

/** Whether a formula stands within a line. `source`: with its signs. */
const isInline = (source: string): boolean => source.startsWith("\\(") || /^\$[^$]/.test(source);

/** A formula with lines of its own. While it has no end and no blank line came, it is text that may still become one. */
function blockMath(state: BlockState, first: number, last: number, silent: boolean): boolean {
  const begin = state.bMarks[first]! + state.tShift[first]!;
  const opening = state.src.slice(begin, begin + 2);
  const closing = opening === "\\(" ? undefined : ENDS[opening];
  if (!closing || state.sCount[first]! - state.blkIndent >= 4) return false;
  let line = first;
  for (let from = begin + 2; ; line++, from = state.bMarks[line]!) {
    if (line >= last || from - begin > MAX_CHARS) break;
    if (line > first && (state.isEmpty(line) || state.sCount[line]! < state.blkIndent)) return false;
    const end = endOf(state.src, closing, from, state.eMarks[line]!);
    if (end < 0) continue;
    if (state.src.slice(end + 2, state.eMarks[line]).trim() || !state.src.slice(begin + 2, end).trim()) return false;
    if (!silent) put(state, "math_block", first, line + 1);
    return true;
  }
  if (line < last) return false; // too long
  if (!silent) put(state, "math_begun", first, last);
  return true;
}

function put(state: BlockState, type: string, first: number, next: number): void {
  const token = state.push(type, "", 0);
  token.block = true;
  token.map = [first, next];
  token.content = state.getLines(first, next, state.blkIndent, false).trim();
  state.line = next;
}
