// What an entry is about: the message that it answers, edits, deletes or reacts to, with the beginning of its text.

import { h, plainly } from "/page/dom.js";

const DID = {
  reaction: ({ removed }) => (removed ? "took back a reaction" : "reacted"),
  edit: ({ role }) => (role === "agent" ? "edited an earlier message" : "edited a message"),
  delete: () => "deleted a message",
  ask: ({ role }) => (role === "agent" ? "asks" : null),
};

/** What was done, where an entry is no message of its own; null: it is one. */
export function did(entry) {
  return entry.role === "agent" || entry.role === "user" ? DID[entry.kind]?.(entry) ?? null : null;
}

/** The message meant, to be looked at. Entries of agents and notices tell only its number: they have no quote. */
export function quoted(entry, context) {
  if (entry.quote === undefined) return null;
  const whose = { agent: context.agent(), notice: "Semel", event: "Event" }[entry.whose] ?? entry.whose ?? "";
  const go = () => context.go(entry.of);
  const title = `Show message ${entry.of}`;
  return h("button", { type: "button", class: "quoted", title, onclick: go }, h("b", {}, plainly(whose)), " ", h("bdi", {}, plainly(entry.quote)));
}

/** How a message stands since: its text stays as it was heard. */
export function changed({ edited, deleted }) {
  const mark = (text, title) => h("span", { class: "mark", title }, text);
  return [
    edited ? mark("edited later", `Message ${edited} has the new text. This is the original.`) : null,
    deleted ? mark("deleted later", "It was deleted where it was written. The record keeps it.") : null,
  ];
}
