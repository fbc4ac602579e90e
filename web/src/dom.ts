// Small helpers for the parts of the page that are no components. Text always goes in as text.

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

/** Sets text only where it differs: an unchanged node keeps the reader's selection in it (Law 8). */
export function say(node: Node, text: string): void {
  if (node.textContent !== text) node.textContent = text;
}

export function show(node: HTMLElement, yes: boolean): void {
  if (node.hidden === yes) node.hidden = !yes;
}

export function selectionTouches(node: Node): boolean {
  const selection = document.getSelection();
  if (!selection?.rangeCount) return false;
  const range = selection.getRangeAt(0);
  return !range.collapsed && range.intersectsNode(node); // unlike Selection's own properties, a range needs no layout
}
