// The keys of the page. Whoever binds one says what it does, so the sheet of keys lists all of them.

import { withLater } from "./on_demand.ts";
import { t } from "./texts.ts";

export interface Key {
  /** As it is written: "Ctrl+K" (on a Mac also Cmd), "Alt+N", "Shift+Enter", "?", "ArrowDown". */
  key: string;
  does: string;
  /** Does it, and returns whether there was something to do. If not, the browser and others get the key. */
  press: (event: KeyboardEvent) => boolean;
}

export interface KeyGroup {
  where: string;
  keys: { key: string; does: string }[];
}

const groups: KeyGroup[] = [];

/** Shows the sheet of keys. */
export function showKeys(): true {
  void withLater(({ openKeySheet }) => isCovered() || openKeySheet(groups));
  return true;
}

/** Binds keys for as long as the page is open. `where` says where they work, for people. */
export function bindKeys(target: EventTarget, where: string, keys: Key[]): void {
  const group = groups.find((one) => one.where === where) ?? { where, keys: [] };
  if (!groups.includes(group)) groups.push(group);
  group.keys.push(...keys);
  target.addEventListener("keydown", (event) => {
    const pressed = event as KeyboardEvent;
    if (pressed.isComposing || pressed.keyCode === 229) return; // an input method has it
    const key = keys.find((one) => isPressed(one.key, pressed));
    if (!key?.press(pressed)) return;
    pressed.preventDefault();
    pressed.stopImmediatePropagation();
  });
}

/** Whether an event is this key with these modifiers. Which sign a letter makes with Alt differs: its key counts. */
export function isPressed(written: string, event: Pick<KeyboardEvent, "key" | "code" | "ctrlKey" | "metaKey" | "altKey" | "shiftKey">): boolean {
  const parts = written.split("+");
  const key = parts.pop()!;
  const has = (modifier: string): boolean => parts.includes(modifier);
  const isSign = key.length === 1 && !/[A-Z]/.test(key); // such as ?, which needs Shift on some keyboards
  const isKey = isSign ? event.key === key : event.code === `Key${key}` || event.key.toLowerCase() === key.toLowerCase();
  return isKey && (event.ctrlKey || event.metaKey) === has("Ctrl") && event.altKey === has("Alt") && (isSign || event.shiftKey === has("Shift"));
}

const TEXT_FIELDS = "textarea, select, input:not([type=checkbox])";

/** Whether a key was pressed where it writes something. */
export const isWriting = (event: Event): boolean => event.target instanceof Element && event.target.matches(TEXT_FIELDS);

/** Whether a dialog lies over the page: then only its own keys work. */
export const isCovered = (): boolean => document.querySelector("dialog[open]") !== null;

bindKeys(document, t("Everywhere"), [
  { key: "?", does: t("Show the keys (not in a text box)"), press: (event) => !isWriting(event) && !isCovered() && showKeys() },
  { key: "Ctrl+/", does: t("Show the keys"), press: () => !isCovered() && showKeys() },
]);
