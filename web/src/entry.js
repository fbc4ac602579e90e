// One entry of the transcript. An update touches only what differs; the reader's selection survives it.

import { changed, did, quoted, reporter } from "./about.js";
import { waits } from "./busy_texts.ts";
import { h, openly, plainly, say, selectionTouches, time } from "./dom.js";
import { fate } from "./fate.js";
import { fileNodes } from "./files.js";

const ENDED_BADLY = new Set(["failed", "turn.failed", "turn.empty"]); // kinds of notices
const ANSWERS = "Semel";
const WHO = { user: "You", agent: "Agent", notice: "Notice" };

export class EntryRow {
  constructor(data, context) {
    this.context = context;
    this.body = h("div", { class: "body" });
    this.text = document.createTextNode("");
    this.body.append(this.text);
    this.head = h("div", { class: "head" });
    this.meant = h("div", { class: "meant" });
    this.foot = h("div", { class: "foot" });
    this.waits = h("span", { class: "waits" });
    this.node = h("li", { class: `entry ${data.role}`, tabindex: "-1" }, this.head, this.meant, this.folded(data), this.foot, this.aside(data));
    this.set(data);
  }

  set(data) {
    this.data = data;
    this.node.classList.toggle("live", Boolean(data.live));
    this.node.classList.toggle("command", data.kind === "command");
    this.node.classList.toggle("summary", isSummary(data));
    this.node.classList.toggle("asked", isRequest(data));
    this.node.classList.toggle("partial", Boolean(data.partial));
    this.node.classList.toggle("superseded", Boolean(data.superseded || data.deleted));
    this.node.classList.toggle("gesture", data.role === "user" && data.kind === "reaction");
    this.node.classList.toggle("bare", data.role === "user" && !data.text);
    this.setText();
    this.setParts("head", JSON.stringify([data.sender, data.kind, data.from, data.to, data.at]), () => this.heading());
    this.setParts("meant", JSON.stringify([data.of, data.quote, data.whose]), () => [quoted(data, this.context)]);
    const { partial, superseded, echoes, files, delivery, tool, late, behind, joined, automatic, edited, deleted } = data;
    const flags = [partial, superseded, tool, late, behind, joined, automatic, Boolean(data.waiting), edited, deleted];
    const told = JSON.stringify([flags, echoes, files, delivery]);
    this.setParts("foot", told, () => [...fileNodes(files), ...this.marks(), ...fate(data, this.context)]);
  }

  /**
   * The text, folded if it is a summary (which is for the model) or a permission request as it was sent to a chat (the
   * row above shows that request, with buttons).
   */
  folded(data) {
    if (isRequest(data)) return h("details", {}, h("summary", {}, "The question, as it was sent"), this.body);
    if (!isSummary(data)) return this.body;
    const { first, last } = data.covers || {};
    const what = `The model goes on from a summary of entries ${first} to ${last}. They stay where they are.`;
    return h("details", {}, h("summary", {}, what), this.body);
  }

  /** Shows the place of a waiting entry in the session's queue, from 1, and why it waits. */
  line(place, why) {
    say(this.waits, [waits(this.data.waiting, place), why].filter(Boolean).join(": "));
  }

  setParts(name, told, make) {
    if (this[`${name}Told`] === told) return;
    this[`${name}Told`] = told;
    const held = this[name].contains(document.activeElement);
    this[name].replaceChildren(...make().filter(Boolean));
    if (held) (this[name].querySelector("button") ?? this.node).focus({ preventScroll: true }); // button was replaced
  }

  grow(text) {
    const cut = this.data.text.endsWith("\r"); // the next text may begin with the \n of this line end
    this.data = { ...this.data, text: this.data.text + text };
    if (cut) this.setText();
    else this.text.appendData(openly(text));
  }

  setText() {
    const { html } = this.data;
    if (html !== undefined && html !== this.html) return this.setHtml(html);
    const text = openly(this.data.text);
    if (html !== undefined || this.text.data === text) return;
    if (this.html !== undefined) {
      this.html = undefined;
      this.body.replaceChildren(this.text);
      this.body.classList.remove("rich");
    }
    if (text.startsWith(this.text.data)) this.text.appendData(text.slice(this.text.data.length));
    else this.text.data = text;
  }

  /** Swaps plain text for the sanitised HTML of the same text, but never under a reader's selection. */
  setHtml(html) {
    if (this.body.isConnected && selectionTouches(this.body)) {
      document.addEventListener("selectionchange", () => this.setText(), { once: true });
      return;
    }
    this.html = html;
    this.text.data = openly(this.data.text);
    this.body.innerHTML = html; // sanitised by the gateway: see faces/http/markdown.py
    this.body.classList.add("rich");
    for (const pre of this.body.querySelectorAll("pre")) {
      pre.tabIndex = 0; // it scrolls, so the keyboard must reach it
      const [, language] = /(?:^| )language-(\S+)/.exec(pre.firstElementChild?.className ?? "") ?? [];
      if (language) pre.dataset.language = language;
    }
    for (const table of this.body.querySelectorAll("table")) {
      const scroll = h("div", { class: "wide", tabindex: "0" });
      table.replaceWith(scroll);
      scroll.append(table);
    }
  }

  heading() {
    const { role, sender, kind, at, from, to } = this.data;
    const deed = did(this.data);
    const who = isSummary(this.data) ? "Summary" : role === "event" ? reporter(this.data) : sender || (role === "agent" ? this.context.agent() : kind === "command" && role === "notice" ? ANSWERS : WHO[role]);
    return [
      h("span", { class: "who" }, plainly(who)),
      deed ? h("span", { class: "via" }, deed) : null,
      from ? h("span", { class: "via" }, `from ${plainly(from)}`) : null,
      to ? h("span", { class: "via" }, `to ${plainly(to)}`) : null,
      time(at),
    ];
  }

  marks() {
    const { partial, superseded, echoes, tool, late, behind, waiting, joined, automatic } = this.data;
    const mark = (text, title) => h("span", { class: "mark", title }, text);
    const ended = lateEnd(this.data);
    const due = lateDue(this.data);
    const times = echoes > 1 ? ` ×${echoes}` : "";
    return [
      partial ? mark("cut off", "The agent ended before this was finished. What had been shown is kept.") : null,
      superseded ? mark("said again below", "A later attempt at this turn replaced it.") : null,
      echoes ? mark(`also sent by tool${times}`, "The agent sent this with a tool and said it again; it was delivered once.") : null,
      tool && !echoes && !did(this.data) ? mark("sent by tool", "The agent sent this while it worked.") : null,
      late ? mark("late", "It came after its turn was over.") : null,
      behind ? mark("reached the chat later", "It was still being written: the chat got it after the entries below it.") : null,
      automatic ? mark("automatic", "A program sent this.") : null,
      joined ? mark("joined the running turn", "The agent got this while it worked.") : null,
      ended ? h("span", { class: "mark", title: "The report of its end came late." }, "ended at ", time(ended)) : null,
      due ? h("span", { class: "mark", title: "No gateway ran then, or the machine slept." }, "was due at ", time(due)) : null,
      ...changed(this.data),
      waiting ? this.waits : null,
      ENDED_BADLY.has(this.data.kind) && this.data.role === "notice" ? this.retry() : null,
    ];
  }

  /** A button that runs the turn again. Only the last row shows it: later, there is another last turn. */
  retry() {
    const act = () => this.context.retry();
    return h("button", { type: "button", class: "tiny retry", onclick: act, title: "Run the turn again (/retry)" }, "Try again");
  }

  /** Shown below an agent's text while the pointer is over it, and below the last one: its time and a copy button. */
  aside(data) {
    if (data.role !== "agent") return null;
    const copy = async () => {
      await navigator.clipboard.writeText(this.data.text);
      say(button, "Copied");
      setTimeout(() => say(button, "Copy"), 1500);
    };
    const button = h("button", { type: "button", class: "tiny", onclick: copy, title: "Copy the text as it was said" }, "Copy");
    return h("div", { class: "aside" }, time(data.at), navigator.clipboard ? button : null);
  }
}

const MAX_PUNCTUAL_MS = 60_000;

/** When a command ended, in ms, if its report came later than in a minute; as in semel/timing/late_reports.py. */
function lateEnd({ kind, data, at }) {
  const ended = kind === "exec.finished" ? data?.ended : null;
  return Number.isInteger(ended) && ended >= 0 && at - ended > MAX_PUNCTUAL_MS ? ended : null;
}

/** When a schedule's firing was due, in ms, if it ran more than a minute later; as in semel/timing/late_reports.py. */
function lateDue({ kind, data, at }) {
  const due = kind === "schedule" && typeof data?.due === "string" ? Date.parse(data.due) : NaN;
  return due >= 0 && at - due > MAX_PUNCTUAL_MS ? due : null;
}

function isSummary(data) {
  return data.role === "notice" && data.kind === "summary";
}

function isRequest(data) {
  return data.role === "notice" && data.kind === "permission";
}
