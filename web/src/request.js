// A permission request or a question. The first answer counts, and all watchers see it.

import { diffNodes } from "./diff.js";
import { h, inputText, openly, plainly } from "./dom.js";

const ASKED = "The agent asks for permission";
const CLOSED = { cancelled: "cancelled", expired: "nobody answered in time" };

export class RequestRow {
  constructor(data, context) {
    this.context = context;
    this.node = h("li", { class: `item request ${data.kind}` });
    this.set(data);
  }

  grow() {}

  /** Hides this row, because the row of the tool call `call` shows how the request was answered. */
  join(call) {
    this.call = call;
    if (this.node.contains(document.activeElement)) call.focus();
    this.node.hidden = true;
  }

  set(data) {
    this.data = data;
    const told = JSON.stringify([data.state, data.answer, data.by, data.title, data.text, data.input, data.options, data.diffs]);
    if (told === this.told) return;
    this.told = told;
    const held = this.node.contains(document.activeElement);
    const input = inputText(data.input);
    const asked = data.kind === "ask"; // its text is the entry above
    const open = data.state === "open";
    const repeats = open && data.title && input.includes(data.title); // below it stands all of what is to be allowed
    const title = asked ? "Answer" : (!repeats && (data.title || data.text)) || ASKED;
    this.node.dataset.state = data.state;
    this.node.hidden = Boolean(this.call) || (asked && !data.options?.length);
    this.node.replaceChildren(
      h("p", { class: "label", tabindex: "-1" }, plainly(title)),
      input && input !== title && open ? h("pre", { class: "input", tabindex: "0" }, openly(input)) : "",
      ...(open ? diffNodes(data.diffs) : []),
      open ? this.buttons() : h("p", { class: "outcome" }, this.outcome()),
    );
    if (held) this.node.querySelector("button, .label").focus({ preventScroll: true }); // its button was replaced
  }

  buttons() {
    const options = this.data.options || [];
    const make = (option) => {
      const id = option.optionId ?? option.id ?? option.name ?? option;
      const kind = String(option.kind || "").split("_")[0];
      return h("button", { type: "button", class: kind, onclick: (event) => this.answer(id, event.target) }, plainly(option.name ?? id));
    };
    return h("div", { class: "options", role: "group", "aria-label": "Answers" }, ...options.map(make));
  }

  async answer(option, button) {
    const buttons = [...button.parentElement.querySelectorAll("button")];
    for (const one of buttons) one.disabled = true;
    button.classList.add("chosen");
    const done = await this.context.answer(this.data.id, option);
    if (done) return; // the stream brings the outcome, here and to all other watchers
    for (const one of buttons) one.disabled = false;
    button.classList.remove("chosen");
  }

  outcome() {
    const { state, answer, by, options } = this.data;
    if (state !== "answered") return CLOSED[state] || state;
    const chosen = (options || []).find((option) => (option.optionId ?? option.id ?? option.name ?? option) === answer);
    const words = this.data.kind === "ask" ? null : answer; // what a message answered stands below, as an entry
    return plainly(`${chosen?.name ?? words ?? "answered"}${by ? ` · ${by}` : ""}`);
  }
}
