// <details> in an agent's Markdown, which the renderer leaves as text: it becomes a disclosure around the blocks up to its
// end. Its tags stay in the text, unseen (Law 8). One without a summary, or that is never closed, stays as it was written.

/** A block of HTML, or a disclosure of several. `key`: the same as long as text only joins the end. */
export type Part = { key: string; html: string } | Disclosure;

export interface Disclosure {
  key: string;
  /** HTML. */
  summary: string;
  /** The tags before the summary, after it, and at the end, as they were written. */
  tags: [string, string, string];
  /** Whether the agent wants it open at first. */
  isOpen: boolean;
  parts: Part[];
}

type Piece = Part | { end: string };

const BREAK = "(?:<br />\\n)?";
const BEGIN = new RegExp(`^<p>(&lt;details( open)?&gt;${BREAK}&lt;summary&gt;)(.*?)(&lt;/summary&gt;${BREAK})(.*)</p>\\n$`, "s");
const END = new RegExp(`^<p>(.*?)(${BREAK}&lt;/details&gt;${BREAK})(.*)</p>\\n$`, "s");
const TAG = /<(\/?)([a-z]+)[^>]*?(\/?)>/g;

/** The blocks of a text, those of disclosures in these. `live`: the text still grows, so one may be closed later. */
export function partsOf(blocks: readonly string[], live: boolean): Part[] {
  if (!blocks.some((html) => html.includes("&lt;details"))) return asWritten(blocks);
  const parts: Part[] = [];
  const open: Disclosure[] = [];
  for (const piece of blocks.flatMap((html, place) => piecesOf(html, String(place)))) {
    const within = open.at(-1)?.parts ?? parts;
    if ("end" in piece) {
      const ended = open.pop();
      if (!ended) return asWritten(blocks);
      ended.tags[2] = piece.end;
      continue;
    }
    within.push(piece);
    if ("parts" in piece) open.push(piece);
  }
  return open.length && !live ? asWritten(blocks) : parts;
}

const asWritten = (blocks: readonly string[]): Part[] => blocks.map((html, place) => ({ key: String(place), html }));

/** A block, divided where a disclosure begins or ends in it. */
function piecesOf(html: string, key: string): Piece[] {
  const [, tag = "", isOpen, summary = "", closing = "", inside = ""] = BEGIN.exec(html) ?? [];
  if (tag && isWhole(summary)) {
    const opened: Disclosure = { key, summary, tags: [signsOf(tag), signsOf(closing), ""], isOpen: isOpen !== undefined, parts: [] };
    return [opened, ...restOf(inside, `${key}.`)];
  }
  const [, before = "", end = "", after = ""] = END.exec(html) ?? [];
  if (!end || !isWhole(before)) return [{ key, html }];
  return [...(before ? [{ key, html: `<p>${before}</p>\n` }] : []), { end: signsOf(end) }, ...restOf(after, `${key}.`)];
}

const restOf = (inside: string, key: string): Piece[] => (inside ? piecesOf(`<p>${inside}</p>\n`, key) : []);

/** Whether each element that begins in a piece of HTML ends in it. */
function isWhole(html: string): boolean {
  const open: string[] = [];
  for (const [, ends, name, isVoid] of html.matchAll(TAG)) {
    if (ends && open.pop() !== name) return false;
    if (!ends && !isVoid) open.push(name!);
  }
  return open.length === 0;
}

const signsOf = (html: string): string => html.replaceAll("<br />", "").replaceAll("&lt;", "<").replaceAll("&gt;", ">");
