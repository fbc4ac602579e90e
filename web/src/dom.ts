// Small helpers for the parts of the page that are no components. Text always goes in as text.

import { clock, fullTime } from "./text.ts";
import { t } from "./texts.ts";

export { ago, called, clock, freshId, inputText, openly, plainly } from "./text.ts";

type Child = Node | string | null | undefined;
type Props = Record<string, unknown> | null;

/** Creates an element: h("p", {class: "x", onclick: f, hidden: true}, "text", node, null). Skips empty children. */
export function h<K extends keyof HTMLElementTagNameMap>(tag: K, props?: Props, ...children: (Child | Child[])[]): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value as EventListener);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat()) if (child !== null && child !== undefined && child !== "") node.append(child);
  return node;
}

/** The element of index.html with this id. */
export const byId = <T extends HTMLElement = HTMLElement>(id: string): T => document.getElementById(id) as T;
export const inputById = (id: string): HTMLInputElement => byId<HTMLInputElement>(id);
export const dialogById = (id: string): HTMLDialogElement => byId<HTMLDialogElement>(id);

/** A dialog of lists with a title and a button that closes it. It leaves the document as it closes. */
export function dialogWith(id: string, title: string, body: Node[], foot: Node[] = []): HTMLDialogElement {
  const dialog = h("dialog", { id, class: "lists", "aria-labelledby": `${id}-title` });
  const close = h("button", { type: "button", class: "quiet icon", "aria-label": t("Close"), onclick: () => dialog.close() });
  close.append(byId("lightbox-close").firstElementChild!.cloneNode(true));
  dialog.append(
    h("header", {}, h("h2", { id: `${id}-title`, tabindex: -1, autofocus: true }, title), close),
    h("div", { class: "lists-body", tabindex: 0 }, ...body),
    h("footer", {}, ...foot),
  );
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  return dialog;
}

/** Sets text only where it differs: an unchanged node keeps the reader's selection in it (Law 8). */
export function say(node: Node, text: string): void {
  if (node.textContent !== text) node.textContent = text;
}

export function show(node: HTMLElement, yes: boolean): void {
  if (node.hidden === yes) node.hidden = !yes;
}

export function time(ms: number): HTMLTimeElement {
  return h("time", { datetime: new Date(ms).toISOString(), title: fullTime(ms) }, clock(ms));
}

export function selectionTouches(node: Node): boolean {
  const selection = document.getSelection();
  if (!selection?.rangeCount) return false;
  const range = selection.getRangeAt(0);
  return !range.collapsed && range.intersectsNode(node); // unlike Selection's own properties, a range needs no layout
}
