// Who reported an event, and what an entry refers to: the message that it answers, edits, deletes or reacts to. Marks for
// edits and deletions.

import { h, plainly } from "./dom.js";

const DID = {
  reaction: ({ removed }) => (removed ? "took back a reaction" : "reacted"),
  edit: ({ role }) => (role === "agent" ? "edited an earlier message" : "edited a message"),
  delete: () => "deleted a message",
  ask: ({ role }) => (role === "agent" ? "asks" : null),
};

/** What the sender did, such as "reacted"; null if the entry is an ordinary message. */
export function did(entry) {
  return entry.role === "agent" || entry.role === "user" ? DID[entry.kind]?.(entry) ?? null : null;
}

/** Who reported an event: its kind, and its sender if it names one. */
export function reporter({ kind, sender }) {
  return [kind || "Event", sender].filter(Boolean).join(" from ");
}

/** A button that quotes the message that the entry refers to, and scrolls to it; null if the entry has no quote. */
export function quoted(entry, context) {
  if (entry.quote === undefined) return null;
  const whose = { agent: context.agent(), notice: "Semel", event: "Event" }[entry.whose] ?? entry.whose ?? "";
  const go = () => context.go(entry.of);
  const title = `Show message ${entry.of}`;
  return h("button", { type: "button", class: "quoted", title, onclick: go }, h("b", {}, plainly(whose)), " ", h("bdi", {}, plainly(entry.quote)));
}

/** Marks that say that a message was edited or deleted later. Its own text stays. */
export function changed({ edited, deleted }) {
  const mark = (text, title) => h("span", { class: "mark", title }, text);
  return [
    edited ? mark("edited later", `Message ${edited} has the new text. This is the original.`) : null,
    deleted ? mark("deleted later", "It was deleted where it was written. The record keeps it.") : null,
  ];
}
