// The only place where text becomes HTML: DOMPurify makes nodes of it, and leaves what is listed here (as
// semel/faces/http/markdown.py does). Nothing in it can run, load or contact another host.

import DOMPurify from "dompurify";

const MARKDOWN_TAGS = [
  "a", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "s",
  "span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
];
const ADDRESS = /^(?:https?|mailto|tel|xmpp|matrix):/i;

/** Rendered Markdown as nodes. Links open in a new tab and tell nothing. */
export function markdownNodes(html: string): DocumentFragment {
  const nodes = DOMPurify.sanitize(html, {
    ALLOWED_TAGS: MARKDOWN_TAGS,
    ALLOWED_ATTR: ["href", "class", "start", "align"],
    ALLOWED_URI_REGEXP: ADDRESS,
    ADD_URI_SAFE_ATTR: ["align", "start"],
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
    RETURN_DOM_FRAGMENT: true,
  });
  for (const link of nodes.querySelectorAll("a")) {
    link.target = "_blank";
    link.rel = "noopener noreferrer nofollow";
  }
  return nodes;
}

/** A formula as nodes of MathML, with these tags and attributes alone. */
export function mathNodes(html: string, tags: string[], attributes: string[]): DocumentFragment {
  return DOMPurify.sanitize(html, {
    ALLOWED_TAGS: tags,
    ALLOWED_ATTR: attributes,
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
    RETURN_DOM_FRAGMENT: true,
  });
}

/** Coloured text as nodes: spans with classes, and nothing else. */
export function colouredNodes(html: string): DocumentFragment {
  return DOMPurify.sanitize(html, {
    ALLOWED_TAGS: ["span"],
    ALLOWED_ATTR: ["class"],
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
    RETURN_DOM_FRAGMENT: true,
  });
}
