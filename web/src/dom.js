// Small helpers for the DOM. Text always goes in as text; the only HTML is what the gateway sanitised.

import { clock, fullTime } from "./text.ts";

export { ago, called, clock, freshId, inputText, openly, plainly } from "./text.ts";

/** Creates an element: h("p", {class: "x", onclick: f, hidden: true}, "text", node, null). Skips empty children. */
export function h(tag, props, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat()) if (child !== null && child !== undefined && child !== "") node.append(child);
  return node;
}

export const byId = (id) => document.getElementById(id);

/** Sets text only where it differs: an unchanged node keeps the reader's selection in it (Law 8). */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function show(node, yes) {
  if (node.hidden === yes) node.hidden = !yes;
}

export function time(ms) {
  const then = new Date(ms);
  return h("time", { datetime: then.toISOString(), title: fullTime(ms) }, clock(ms));
}

export function selectionTouches(node) {
  const selection = document.getSelection();
  if (!selection?.rangeCount) return false;
  const range = selection.getRangeAt(0);
  return !range.collapsed && range.intersectsNode(node); // unlike Selection's own properties, a range needs no layout
}
