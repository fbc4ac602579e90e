// What happens to a message that arrives while the agent is busy: the texts that say it, and the menu of busy modes.

import { ask, at } from "./api.ts";
import { DOES } from "./busy_texts.ts";
import { h, say, show } from "./dom.js";

const ALWAYS = "always ";

/** The menu of busy modes: for the next message only, or for all messages of the session. */
export class Busy {
  constructor(select, problem) {
    this.select = select;
    this.problem = problem;
    this.usual = h("option", { value: "" }, "as usual");
    const options = (start) => Object.entries(DOES).map(([mode, what]) => h("option", { value: start + mode, title: what }, start + mode));
    select.append(
      this.usual,
      h("optgroup", { label: "This message" }, ...options("")),
      h("optgroup", { label: "All messages here" }, ...options(ALWAYS), h("option", { value: ALWAYS }, "as configured")),
    );
    this.byKey = false;
    select.addEventListener("keydown", () => (this.byKey = true));
    select.addEventListener("pointerdown", () => (this.byKey = false));
    select.addEventListener("change", () => (this.byKey ? this.explain() : this.settle()));
    select.addEventListener("blur", () => this.settle().then(() => this.draw(this.key, this.session)));
  }

  /** Returns the mode for the message that is sent now (undefined: the session's mode), and resets the menu. */
  take() {
    const mode = this.select.value.replace(ALWAYS, "") || undefined;
    this.select.value = "";
    this.explain();
    return mode;
  }

  /** Saves a choice for all messages. With arrow keys, that is when the menu loses focus: they pass other options. */
  async settle() {
    const { value } = this.select;
    if (value.startsWith(ALWAYS)) {
      this.select.value = "";
      try {
        await ask("PUT", at(this.key, "/busy"), { mode: value.slice(ALWAYS.length) || null });
      } catch (error) {
        this.problem(error);
      }
    }
    this.explain();
  }

  explain() {
    const { value } = this.select;
    const own = value.startsWith(ALWAYS) ? "" : value;
    const mode = own || value.slice(ALWAYS.length) || this.session?.busy;
    const what = mode ? `${own ? "this message" : "all messages here"}: ${DOES[mode]}` : "as configured";
    this.select.title = `While the agent is busy: ${what}`;
  }

  draw(key, session) {
    if (key !== this.key) this.select.value = "";
    this.key = key;
    this.session = session;
    if (!session) return show(this.select.parentElement, false);
    say(this.usual, session.busy ? `usual: ${session.busy}` : "as usual");
    this.explain();
    const busy = session.state === "running" || session.state === "waiting" || session.busy || this.select.value;
    show(this.select.parentElement, Boolean(busy) || document.activeElement === this.select);
  }
}
