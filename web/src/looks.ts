// How the page looks in this browser: its colours and how close the rows are. styles/ has both, by attributes of the root.

import { keep, kept } from "./kept.ts";

export const LOOKS = { theme: ["", "light", "dark"], density: ["", "compact"] } as const;
export type Look = keyof typeof LOOKS;

/** What was chosen; "" is the default. */
export const lookOf = (look: Look): string => kept(look, "");

export function setLook(look: Look, value: string): void {
  keep(look, value);
  applyLooks();
}

export function applyLooks(): void {
  const root = document.documentElement;
  for (const look of Object.keys(LOOKS) as Look[]) {
    const value = lookOf(look);
    if (value) root.dataset[look] = value;
    else delete root.dataset[look];
  }
  document.querySelector<HTMLMetaElement>("meta[name=theme-color]")!.content = getComputedStyle(document.body).backgroundColor;
}

addEventListener("storage", applyLooks); // another tab has changed them
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", applyLooks);
