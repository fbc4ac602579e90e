// Parts of the page that are loaded when they are needed for the first time.

import { type ReadonlySignal, signal } from "@preact/signals";
import { messageOf } from "./api.ts";
import { byId } from "./dom.ts";
import { t } from "./texts.ts";

/** A part that is loaded by `want`, once; its value is null until it is there. Without a connection, the next call tries again. */
export function onDemand<T extends object>(load: () => Promise<T>): { part: ReadonlySignal<T | null>; want: () => void } {
  const part = signal<T | null>(null);
  let isAsked = false;
  const want = async (): Promise<void> => {
    if (isAsked) return;
    isAsked = true;
    try {
      part.value = await load();
    } catch {
      isAsked = false;
    }
  };
  return { part, want: () => void want() };
}

type Later = typeof import("./later.ts");

/** Loads what the page shows only when somebody asks for it, with its style. Throws if it cannot be loaded now. */
export async function loadLater(): Promise<Later> {
  const [part] = await Promise.all([import("./later.ts"), loadStyle()]);
  return part;
}

let whenMissing: (problem: Error) => void = () => {};
export function onMissingPart(handler: (problem: Error) => void): void {
  whenMissing = handler;
}

/** Runs something of that part as soon as it is there. If it cannot be loaded, the reader is told, and nothing is run. */
export async function withLater(act: (part: Later) => unknown): Promise<void> {
  let part: Later;
  try {
    part = await loadLater();
  } catch (error) {
    return whenMissing(new Error(t("This could not be loaded: {why}. Load the page again.", { why: messageOf(error) })));
  }
  act(part);
}

let style: Promise<void> | undefined;

/** Loads the style sheet of the views, and of what else is shown on demand. */
function loadStyle(): Promise<void> {
  const link = byId<HTMLLinkElement>("views-style");
  style ??= new Promise((loaded, failed) => {
    link.addEventListener("load", () => loaded(), { once: true });
    link.addEventListener("error", () => failed(new Error(t("no connection"))), { once: true });
    link.disabled = false; // the browser fetches it now
  });
  return style.catch((error) => {
    style = undefined;
    link.disabled = true;
    throw error;
  });
}
