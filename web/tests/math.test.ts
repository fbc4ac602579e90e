// Formulas: what is one, what is not, that a text that grows ends as it would be whole, and that nothing is lost.

import assert from "node:assert/strict";
import { test } from "node:test";
import { renderBlocks, renderMarkdown } from "../src/markdown.ts";
import { mathHtml } from "../src/math.ts";

const grown = (text: string): string => {
  let blocks;
  for (let end = 1; end < text.length; end++) blocks = renderBlocks(text.slice(0, end), blocks);
  return renderBlocks(text, blocks).html.join("");
};
const formulasOf = (text: string): string[] => [...renderMarkdown(text).matchAll(/<span class="math[^>]*>([^<]*)<\/span>/g)].map((found) => found[1]!);

test("a formula is between $$, \\[ and \\], or \\( and \\), and stays as it is written", () => {
  assert.deepEqual(formulasOf("so \\(a_1 * b_1 * c\\) and $$x_1^2$$ and \\[ y \\]"), ["\\(a_1 * b_1 * c\\)", "$$x_1^2$$", "\\[ y \\]"]);
  assert.deepEqual(formulasOf("text:\n$$\na\n= b\n- c\\\\\n$$\nmore"), ["$$\na\n= b\n- c\\\\\n$$"]);
  assert.deepEqual(formulasOf("- item\n\n  \\[\n  a\n  \\]\n- next"), ["\\[\na\n\\]"]);
});

test("prices, process ids and code are no formulas", () => {
  for (const text of ["$5 and $6", "US$5, AU$6", "the pid is $$ and $$ is it", "`$$x$$` and `\\(x\\)`", "```\n$$\nx\n$$\n```", "\\\\(x\\\\)", "$$\n\n$$", "$$$$", "a \\[x\\] b", "\\[x\\] done"]) {
    assert.deepEqual(formulasOf(text), [], text);
  }
});

test("a formula is between two single $ within a line if it can be nothing else", () => {
  for (const formula of ["$x$", "$x'$", "$f(x)$", "$E = mc^2$", "$a_1 * b_1$", "$\\alpha$", "$10^6$", "$2x + 1 = 5$", "$x < y$", "$\\text{speed} = 5$", "$5\\,\\mathrm{km}$", "$a \\$ = b$", "$n - 1$"]) {
    assert.deepEqual(formulasOf(`so (${formula}), and`), [formula.replace("<", "&lt;")], formula);
  }
  const texts = [
    "$5 and $6", "between $5-$10", "I paid $5 or 5$.", "US$5 = 6$", "$HOME and $PATH", "$HOME/$USER", "$FOO=$BAR", "$foo_bar$", "$ x$", "$x $", "$x$y", "$5 + tax = 3$",
    "$5 + 5$", "$5$", "\\$x$", "`$x$`", "$$x$y", "$a\n= b$", "$price = 5$", "$1 + $2 = $3", "cost$x$",
  ];
  for (const text of texts) assert.deepEqual(formulasOf(text), [], text);
  assert.match(mathHtml("$x$")!, /<mi>x<\/mi>/);
  assert.doesNotMatch(mathHtml("$x$")!, /display="block"/);
  assert.equal(mathHtml("$a % b$"), null);
});

test("brackets within a line that are no formula stay as they are written", () => {
  assert.equal(renderMarkdown("so \\[y\\] is, \\[x\\](z), [\\[a\\]](b)"), "<p>so \\[y\\] is, \\[x\\](z), [a] (b)</p>\n");
});

test("a text that grows ends as it would be whole", () => {
  const texts = [
    "a\n\n$$\nx\n- y\n- z\n\n- w\n$$\n\nend", "$$\na\n- b\n- c\n- d\n= e\n$$\nthen\n\n- x", "$$x$$ is\n$$y$$\n\nz", "\\[\n\\begin{aligned}\na &= b \\\\\n&= c\n\\end{aligned}\n\\]\nend",
    "- a\n  $$\n  b\n  $$\n- c\n\nd\n\n> $$\n> e\n> $$\n\nf", "$$ never ends\n- a\n- b\n- c\n- d", "x $$a$$ y \\(b\\) z\n\n\\(c",
  ];
  for (const text of texts) assert.equal(grown(text), renderMarkdown(text), text);
});

test("each letter of a text with formulas is there, drawn or as text", () => {
  const letters = (text: string): string => text.replace(/<[^>]*>/g, "").replace(/[^a-z]/g, "");
  for (const text of ["$$ never ends\n- a\nb", "a\n$$\nb $$ c\nd", "\\[a\\] b \\[c", "$$\nx\n\ny\n$$"]) assert.equal(letters(renderMarkdown(text)), letters(text), text);
});

test("what KaTeX draws is MathML without styles, classes that matter, or a second copy of the source", () => {
  const html = mathHtml("$$\\frac{a}{b} \\sqrt{x} \\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}$$")!;
  assert.match(html, /<math[^>]* display="block"/);
  assert.match(html, /<mfrac>/);
  assert.doesNotMatch(html, /annotation|frac\{/);
  assert.match(mathHtml("\\(x\\)")!, /<mi>x<\/mi>/);
});

test("a formula that would hide, drop or cover something stays text", () => {
  for (const formula of ["a % b", "\\phantom{a}", "\\color{white}{a}", "\\def\\x{a}b", "\\rlap{a}b", "a\\kern-1em b", "\\href{x}{y}", "\\frac{a", "\\nosuch", "a\\\\[-2em]b"]) {
    assert.equal(mathHtml(`\\(${formula}\\)`), null, formula);
  }
  assert.ok(mathHtml("\\(5\\% \\approx \\text{a}\\)"), "an escaped % is no comment");
});

test("many beginnings without an end take no time", () => {
  const start = performance.now();
  renderMarkdown("\\(".repeat(40_000));
  renderMarkdown("$$ ".repeat(30_000));
  renderMarkdown("$$\na\n".repeat(15_000));
  assert.ok(performance.now() - start < 5000);
});
