// <details> in an agent's Markdown: what becomes a disclosure, and that no character is lost.

import assert from "node:assert/strict";
import { test } from "node:test";
import { renderBlocks } from "../src/markdown.ts";
import { type Part, partsOf } from "../src/rows/disclosures.ts";

/** What is in the parts, as a tree: `[summary, ...parts]` is a disclosure. */
const tree = (parts: Part[]): unknown[] => parts.map((part) => ("parts" in part ? [part.summary, ...tree(part.parts)] : textOf(part.html)));
const textOf = (html: string): string => html.replace(/<[^>]*>/g, "").replaceAll("&lt;", "<").replaceAll("&gt;", ">").trim();
const drawn = (text: string, live = false): unknown[] => tree(partsOf(renderBlocks(text).html, live));
const whole = (parts: Part[]): string =>
  parts.map((part) => ("parts" in part ? part.tags[0] + textOf(part.summary) + part.tags[1] + whole(part.parts) + part.tags[2] : textOf(part.html))).join("");

test("a disclosure holds the blocks up to its end, and what stands behind it is outside", () => {
  const text = "before\n\n<details>\n<summary>Raw **numbers**</summary>\n\n| a |\n|---|\n| 1 |\n\ntext\n\n</details>\n\nafter";
  assert.deepEqual(drawn(text), ["before", ["Raw <strong>numbers</strong>", "a\n\n\n\n\n1", "text"], "after"]);
});

test("it may be one paragraph, end in one, follow another, or hold one", () => {
  assert.deepEqual(drawn("<details><summary>A</summary>\none\n</details>\n<details><summary>B</summary>two</details>\nafter"), [["A", "one"], ["B", "two"], "after"]);
  assert.deepEqual(drawn("<details>\n<summary>S</summary>\n\n```\nls\n```\n</details>\nmore"), [["S", "ls"], "more"]);
  assert.deepEqual(drawn("<details><summary>A</summary>\n\n<details><summary>B</summary>\n\nin\n\n</details>\n\n</details>"), [["A", ["B", "in"]]]);
});

test("what is no whole disclosure stays as it was written", () => {
  for (const text of [
    "<details><summary>never closed</summary>\n\ntext",
    "<details>\n\nno summary\n\n</details>",
    "text\n\n</details>",
    "`<details><summary>`x`</summary>` y </details>",
    "<details><summary>a `</summary>` b\n\n</details>",
    "- <details><summary>in a list</summary>\n\n  x\n\n  </details>",
    "```\n<details><summary>code</summary></details>\n```",
  ]) assert.deepEqual(drawn(text), renderBlocks(text).html.map(textOf), text);
});

test("while the text grows, it is one as soon as its summary is there", () => {
  assert.deepEqual(drawn("<details><summary>A</summary>\n\none\n\ntw", true), [["A", "one", "tw"]]);
  const [part] = partsOf(renderBlocks("<details open><summary>A</summary>\n\none").html, true);
  assert.ok(part && "parts" in part && part.isOpen);
});

test("no character is lost", () => {
  const text = "a\n\n<details open>\n<summary>`x` < y</summary>\nb\n\nc\n</details>\nd";
  const signs = (shown: string): string => shown.replace(/[\s`]/g, "");
  assert.equal(signs(whole(partsOf(renderBlocks(text).html, false))), signs(text));
});
