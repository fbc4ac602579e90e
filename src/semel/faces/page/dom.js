// Small helpers for the DOM. Text always goes in as text; the only HTML is what the gateway sanitised.

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

const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

/** A visible stand-in for a control character or a bidirectional override, as in semel/text/visible.py. */
function picture(sign) {
  const code = sign.charCodeAt(0);
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  return code === 0x7f ? "\u2421" : `<U+${code.toString(16).toUpperCase().padStart(4, "0")}>`;
}

/** A name or an address on one line: line ends and tabs become blanks, other hidden characters become visible. */
export function plainly(text) {
  return String(text).replace(HIDDEN, (sign) => (/\s/.test(sign) ? " " : picture(sign)));
}

/** A text with its hidden characters made visible. Line ends and tabs stay. */
export function openly(text) {
  return String(text).replace(/\r\n/g, "\n").replace(HIDDEN, (sign) => (sign === "\n" || sign === "\t" ? sign : picture(sign)));
}

export const byId = (id) => document.getElementById(id);

/** Sets text only where it differs: an unchanged node keeps the reader's selection in it (Law 8). */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function show(node, yes) {
  if (node.hidden === yes) node.hidden = !yes;
}

const TIME = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const DAY = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const FULL = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "medium" });

export function clock(ms) {
  const then = new Date(ms);
  return then.toDateString() === new Date().toDateString() ? TIME.format(then) : `${DAY.format(then)}, ${TIME.format(then)}`;
}

export function time(ms) {
  const then = new Date(ms);
  return h("time", { datetime: then.toISOString(), title: FULL.format(then) }, clock(ms));
}

export function ago(ms) {
  const seconds = (Date.now() - ms) / 1000;
  if (seconds < 60) return "now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  return clock(ms);
}

/** The name of a session: its title, else its key without "AGENT:web:". */
export function called({ title, key }) {
  return plainly(title || key.replace(/^[^:]*:web:(?=.)/, ""));
}

/** A random id that also works where the page is not served over TLS. */
export function freshId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function selectionTouches(node) {
  const selection = document.getSelection();
  if (!selection?.rangeCount) return false;
  const range = selection.getRangeAt(0);
  return !range.collapsed && range.intersectsNode(node); // unlike Selection's own properties, a range needs no layout
}

/** The input of a tool call as text: the command first, then one line per field. */
export function inputText(input) {
  if (input === null || input === undefined) return "";
  if (typeof input !== "object" || Array.isArray(input)) return typeof input === "string" ? input : JSON.stringify(input, null, 2);
  const { command, ...rest } = input;
  const lines = command === undefined ? [] : [Array.isArray(command) ? command.map(plain).join(" ") : plain(command)];
  for (const [name, value] of Object.entries(rest)) if (value !== null && value !== "") lines.push(`${name}: ${plain(value)}`);
  return lines.join("\n");
}

const plain = (value) => (typeof value === "string" ? value : JSON.stringify(value));
