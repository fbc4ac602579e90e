// The page's own words in other languages: none is missing, none is left over, and each is filled in alike.

import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { t } from "../src/texts.ts";
import { GERMAN } from "../src/texts/de.ts";

const SAME_EVERYWHERE = /^(Semel|owner|member|guest|owner\.token|semel (link|chat)|…)$/;
const page = readFileSync("index.html", "utf8").replaceAll("&quot;", '"');
const sources = globSync("src/**/*.{ts,tsx}").filter((path) => !path.includes("texts/")).map((path) => readFileSync(path, "utf8")).join("\n");
const fields = (text: string): string[] => (text.match(/\{\w+\}/g) ?? []).sort();

test("each text has the same fields in German", () => {
  for (const [english, german] of Object.entries(GERMAN)) assert.deepEqual(fields(german), fields(english), english);
});

test("each text of the page itself is there in German", () => {
  const body = page.slice(page.indexOf("<body"), page.indexOf("<noscript")).replace(/<svg.*?<\/svg>/g, "");
  const texts = [...body.matchAll(/>([^<]+)</g), ...body.replaceAll(/"([^"]*"[^"]*"[^"]*)"(?=>)/g, "").matchAll(/ (?:title|placeholder|aria-label)="([^"]+)"/g)]
    .map((found) => found[1]!.trim()).filter((text) => text && !SAME_EVERYWHERE.test(text));
  assert.ok(texts.length > 20, String(texts.length));
  assert.deepEqual(texts.filter((text) => !(text in GERMAN)), []);
});

test("no text is left in German that the page no longer has", () => {
  const words = ["running", "waiting", "pending", "in_progress", "completed", "Ctrl", "Enter", "Shift", "Today", "Yesterday", "Older"]; // by tWord and days
  const left = Object.keys(GERMAN).filter((text) => !words.includes(text) && !sources.includes(`"${text}"`) && !page.includes(text));
  assert.deepEqual(left, []);
});

test("no element says a word that is not translated", () => {
  const elements = globSync("src/**/*.tsx").map((path) => readFileSync(path, "utf8")).join("\n");
  const bare = elements.match(/ (?:title|placeholder|aria-label|text)="[A-Za-z][^"]*"|>[^<>{}=;()]*[a-z]{2}[^<>{}=;()]*<\/(?!code)/g) ?? [];
  assert.deepEqual(bare, []);
});

test("English is as it stands in the code, with its fields filled in", () => {
  assert.equal(t("Show older"), "Show older");
  assert.equal(t("{count} of {all} agents run", { count: 1, all: 4 }), "1 of 4 agents run");
});
