// The page's own words in the language that the reader chose. English stands in the code; each other language is a file of
// texts/ (with one for the views), loaded before anything is drawn. What the gateway, agents and people say stays as it is.

import { kept } from "./kept.ts";
import type { Text } from "./texts/de.ts";

export type { Text };
export type Texts = Readonly<Record<Text, string>>;

type Names<T extends string> = T extends `${string}{${infer Name}}${infer Rest}` ? Name | Names<Rest> : never;
type Fields<T extends string> = [Names<T>] extends [never] ? [] : [Readonly<Record<Names<T>, string | number>>];

const ATTRIBUTES = ["title", "placeholder", "aria-label"]; // that are words

export const LANGUAGES: Readonly<Record<string, { name: string; load: () => Promise<Texts> }>> = {
  en: { name: "English", load: () => Promise.resolve({} as Texts) },
  de: { name: "Deutsch", load: async () => (await import("./texts/de.ts")).GERMAN },
};
const HERE = typeof document === "undefined" ? null : document; // tests have none

/** What the reader chose, or the first language of the browser that there is. */
function chosenLanguage(): string {
  const wanted = [kept("language", ""), ...navigator.languages.map((tag) => tag.split("-")[0]!)];
  return wanted.find((tag) => tag in LANGUAGES) ?? "en";
}

export const language = HERE ? chosenLanguage() : "en";
/** For times and numbers; undefined: as the browser writes them. */
export const locale = HERE && !navigator.language.startsWith(language) ? language : undefined;

const texts: Partial<Texts> = await LANGUAGES[language]!.load().catch(() => ({})); // without a connection: English
if (HERE) {
  HERE.documentElement.lang = language;
  if (language !== "en") translate(HERE.body);
}

/** A text of the page in the reader's language. `fields` are what stands for its {names}. */
export function t<T extends Text>(text: T, ...[fields]: Fields<T>): string {
  const own: string = texts[text] ?? text;
  return fields ? own.replace(/\{(\w+)\}/g, (_, name: string) => String((fields as Record<string, unknown>)[name])) : own;
}

/** A word of the gateway's for a state, such as "running"; as it is if the page has none of its own for it. */
export function tWord(word: string): string {
  return texts[word as Text] ?? word;
}

/** Puts what index.html says into the reader's language. */
function translate(root: HTMLElement): void {
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode as CharacterData;
    node.data = node.data.replace(/\S(?:.*\S)?/s, (found) => tWord(found));
  }
  for (const node of root.querySelectorAll(ATTRIBUTES.map((name) => `[${name}]`).join())) {
    for (const name of ATTRIBUTES) {
      const value = node.getAttribute(name);
      if (value) node.setAttribute(name, tWord(value));
    }
  }
}
