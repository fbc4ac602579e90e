// What a search found: the query that is sent, and a row for each message. It is loaded with the first search.

import { ago, called, h, plainly } from "./dom.ts";
import { reporter } from "./rows/entry.tsx";
import type { SearchHit, SearchPage } from "./wire.ts";
import { t } from "./texts.ts";

const WHO: Record<string, string> = { user: t("You"), agent: t("Agent"), notice: t("Notice") };

/** The query with `*` after its last word, because that word may still be being typed. */
export function queryOf(text: string): string {
  const quoted = (text.match(/"/g) || []).length % 2 === 1;
  return !quoted && /(^|\s)[^\s"-][^\s"]*[\p{L}\p{N}]$/u.test(text) ? `${text}*` : text;
}

/** How much was found, in words. `count`: how many of it are shown. */
export function foundText(page: SearchPage, count: number): string {
  const filling = page.index.current ? "" : t("The index is still being filled: there may be more.");
  const found = page.next ? t("{count} or more found, newest first", { count }) : t("{count} found, newest first", { count });
  const told = count ? found : t("No message matches.");
  return [told, filling].filter(Boolean).join(". ");
}

/** The row of a message that was found. `leave` is called when somebody chooses it. */
export function hitRow(hit: SearchHit, leave: () => void): Node {
  const who = hit.role === "event" ? reporter(hit) : hit.sender || WHO[hit.role];
  const pieces = hit.snippet.map((piece) => (piece.hit ? h("mark", {}, plainly(piece.text)) : plainly(piece.text)));
  const link = h(
    "a",
    { href: `#/s/${encodeURIComponent(hit.session)}/${hit.seq}` },
    h("b", { title: hit.session }, called({ title: hit.title, key: hit.session })),
    h("small", {}, ago(hit.at)),
    h("span", { class: "text" }, h("span", { class: "who" }, `${who}: `), ...pieces),
  );
  link.addEventListener("click", () => {
    leave();
    if (location.hash === link.hash) dispatchEvent(new HashChangeEvent("hashchange")); // the same result again
  });
  return h("li", {}, link);
}
