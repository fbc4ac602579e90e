// How an entry fares on its way out, and what a person decides about a part that is held (Law 7).

import { h } from "/page/dom.js";

const WORDS = {
  queued: "waiting to leave",
  sending: "leaving",
  sent: "delivered",
  unknown: "looking whether it arrived",
  held: "may have arrived",
  rejected: "refused",
  dropped: "given up",
};

export function fate(entry, context) {
  return (entry.delivery || []).map((one) => {
    const count = one.parts > 1 ? ` (${one.parts} parts)` : "";
    const line = h(
      "span",
      { class: `fate ${one.state}`, title: one.error || "" },
      h("b", {}, one.to ?? one.dest ?? ""),
      ` ${WORDS[one.state] || one.state}${count}`,
    );
    return one.state === "held" ? held(one, line, context) : line;
  });
}

function held(one, line, context) {
  const decide = (verdict) => async (event) => {
    const buttons = event.target.parentElement.querySelectorAll("button");
    for (const button of buttons) button.disabled = true;
    if (!(await context.decide(one.part, verdict))) for (const button of buttons) button.disabled = false;
  };
  const button = (verdict, text, title) => h("button", { type: "button", title, onclick: decide(verdict) }, text);
  return h(
    "div",
    { class: "decide", role: "group", "aria-label": `Held: ${one.to}` },
    line,
    h("p", {}, one.error || "The answer was lost: nobody knows whether this arrived."),
    button("resend", "Resend", "Send it again, marked as a repeat"),
    button("arrived", "It arrived", "It is there: mark it as delivered"),
    button("drop", "Drop", "Give it up"),
  );
}
