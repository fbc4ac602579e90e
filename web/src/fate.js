// The delivery state of an entry at each destination, and the buttons to decide about held and rejected parts (Law 7).

import { ask } from "./api.ts";
import { h, plainly } from "./dom.js";

const WORDS = {
  queued: "waiting to leave",
  sending: "leaving",
  sent: "delivered",
  unknown: "looking whether it arrived",
  held: "may have arrived",
  rejected: "refused",
  dropped: "given up",
  failed: "came back: it was sent, and failed later",
};
const VERDICTS = [
  ["resend", "Resend", "It is not there: send it again, marked as a repeat"],
  ["arrived", "It arrived", "It is there: mark it as delivered"],
  ["drop", "Drop", "Give it up"],
];
const AFTER_NO = [
  ["resend", "Send again", "Send it again, behind what waits, once the cause is removed"],
  ["drop", "Drop", "Give it up"],
];
const OF_ALL = { resend: (n) => `Resend all ${n}`, arrived: (n) => `All ${n} arrived`, drop: (n) => `Drop all ${n}` };

export function fate(entry, context) {
  const all = entry.delivery || [];
  const parts = (dest) => all.reduce((sum, one) => sum + (one.to === dest ? one.parts || 1 : 0), 0);
  return all.map((one) => {
    const what = one.failed ? "failed" : one.state;
    const line = h(
      "span",
      { class: `fate ${what}`, title: one.error || "" },
      h("b", {}, plainly(one.to ?? one.dest ?? "")),
      ` ${WORDS[what] || what}${count(one.parts || 1, parts(one.to))}`,
    );
    if (one.state === "rejected") return rejected(one, line, context);
    return one.state === "held" ? held(one, line, context, `${entry.seq} ${one.to}`) : line;
  });
}

/** How many parts of how many: " (1 of 3 parts)"; "" for a message of one part. */
function count(here, all) {
  if (all < 2) return "";
  return here === all ? ` (${all} parts)` : ` (${here} of ${all} parts)`;
}

function held(one, line, context, place) {
  const ids = one.held ?? [one.part];
  const several = ids.length > 1;
  const what = several ? "Nobody knows whether these arrived. Look there, then decide:" : "Nobody knows whether this arrived. Look there, then decide:";
  return h(
    "div",
    { class: "decide", role: "group", "aria-label": `Held: ${plainly(one.to)}` },
    line,
    h("p", {}, what, one.error ? h("small", {}, ` (${plainly(one.error)})`) : null),
    ...buttons(ids, context, (verdict, text) => (several ? OF_ALL[verdict](ids.length) : text)),
    several ? singly(ids, context, place) : null,
  );
}

/** The line of what did not arrive, and the buttons that send it again, once its cause (the line's title) is removed, or give it up. */
function rejected(one, line, context) {
  const ids = one.rejected ?? [one.part];
  return h("span", { class: "again" }, line, ...buttons(ids, context, (_, text) => text, AFTER_NO));
}

/** The decision buttons, three for what is held. Each decides about all of `ids` one by one, so that parts are resent in order. */
function buttons(ids, context, called, verdicts = VERDICTS) {
  let busy = false; // the buttons are not disabled meanwhile, because they would lose the keyboard focus
  const made = verdicts.map(([verdict, text, title]) => {
    const decide = async () => {
      if (busy) return;
      busy = true;
      for (const one of made) one.setAttribute("aria-disabled", "true");
      for (const id of ids) await context.decide(id, verdict);
      for (const one of made) one.removeAttribute("aria-disabled");
      busy = false;
    };
    return h("button", { type: "button", title, onclick: decide }, called(verdict, text));
  });
  return made;
}

const opened = new Set(); // lists that the reader opened: a decision redraws them, and they stay open

/** A list to decide about each part alone, if only some arrived. It fetches their texts when it is opened. */
function singly(ids, context, place) {
  const list = h("ol", {});
  const details = h("details", { class: "singly", open: opened.has(place) }, h("summary", {}, "One by one"), list);
  const fill = async () => {
    if (details.open) opened.add(place);
    else opened.delete(place);
    if (!details.open || list.children.length) return;
    const rows = ids.map((id) => ({ id, text: h("span", { class: "text" }, `p${id}`) }));
    list.append(...rows.map(({ id, text }) => h("li", {}, text, ...buttons([id], context, (_, called) => called))));
    for (const { id, text } of rows) text.textContent = await beginning(id);
  };
  details.addEventListener("toggle", fill);
  if (details.open) fill();
  return details;
}

async function beginning(id) {
  try {
    const { text } = await ask("GET", `/v1/parts/${id}`);
    return `p${id}: ${plainly(text || "").replace(/\s+/g, " ").trim().slice(0, 160)}`;
  } catch (error) {
    return `p${id}: ${error.message}`;
  }
}
