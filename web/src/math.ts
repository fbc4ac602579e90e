// Formulas as MathML, which browsers draw with fonts that they have; loaded when the first text with one is shown.

import katex from "katex";

// What `mathNodes` of sanitised.ts leaves of a formula: nothing of it can run, load, hide or be styled.
const MATH_TAGS = [
  "math", "mrow", "mi", "mn", "mo", "mtext", "ms", "mspace", "mfrac", "msqrt", "mroot", "msub", "msup", "msubsup", "munder",
  "mover", "munderover", "mtable", "mtr", "mtd", "mlabeledtr", "mpadded", "menclose", "mstyle", "mmultiscripts", "mprescripts",
];
const MATH_ATTRIBUTES = [
  "accent", "accentunder", "columnalign", "columnlines", "columnspacing", "depth", "display", "displaystyle", "fence", "form",
  "height", "largeop", "linethickness", "lspace", "mathvariant", "maxsize", "minsize", "movablelimits", "notation", "rowlines",
  "rowspacing", "rspace", "scriptlevel", "separator", "side", "stretchy", "symmetric", "voffset", "width", "xmlns",
];

const MAX_SIZE_EM = 20;

/** What KaTeX would hide, drop, define, colour, link, or lay over other signs: such a formula stays text (Law 8). */
const REFUSED = [
  /(?<!\\)(?:\\\\)*%/, // a comment
  /\\(?:[hv]?phantom|smash|(?:math)?[rlc]lap|color|textcolor|f?colorbox|href|url|includegraphics|html\w*)(?![a-zA-Z])/,
  /\\(?:[egx]?def|let|futurelet|(?:re|provide)?newcommand|global|long|char|label)(?![a-zA-Z])/,
  /\\(?:m?kern|[hm]skip|hspace\*?|raisebox)\s*\{?\s*-/,
  /\\\\\s*\[\s*-/,
];

type Sanitise = (html: string, tags: string[], attributes: string[]) => DocumentFragment;

/** Puts formulas in the place of their sources. One that cannot be drawn stays as it was written. */
export function drawMath(nodes: DocumentFragment, sanitise: Sanitise): void {
  for (const span of nodes.querySelectorAll<HTMLElement>(".math")) {
    const source = span.textContent ?? "";
    const html = mathHtml(source);
    if (!html) continue;
    span.replaceChildren(sanitise(html, MATH_TAGS, MATH_ATTRIBUTES));
    span.title = source;
    span.classList.add("drawn");
    if (span.matches(".display")) span.tabIndex = 0; // it scrolls if it is wide
  }
}

/** A formula as MathML, which is not sanitised yet; null if it cannot be drawn without loss. `source`: with its signs. */
export function mathHtml(source: string): string | null {
  const isDollar = /^\$[^$]/.test(source);
  const signs = isDollar ? 1 : 2;
  const formula = source.slice(signs, -signs);
  if (REFUSED.some((pattern) => pattern.test(formula))) return null;
  try {
    const html = katex.renderToString(formula, {
      displayMode: !isDollar && !source.startsWith("\\("),
      output: "mathml",
      throwOnError: true,
      strict: "ignore",
      trust: false,
      maxSize: MAX_SIZE_EM,
    });
    return html.replace(/<annotation[\s\S]*?<\/annotation>/g, ""); // the source, which would be a second text
  } catch {
    return null;
  }
}
