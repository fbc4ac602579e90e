// Messages on their way to the gateway. Each gets an id here, which every retry repeats, and is kept in local storage
// until the gateway acknowledges it. So a lost answer sends nothing twice, and a reload loses nothing (Laws 1 and 8).

import { NoAnswer, ask, at } from "/page/api.js";
import { freshId, h, openly, say } from "/page/dom.js";
import { keep, kept, keptNames } from "/page/kept.js";

const PAUSES = [500, 1000, 2000, 4000, 8000, 15000];
const TELLS = { sending: "sending", waiting: "no connection: it is sent as soon as there is one", accepted: "", refused: "not sent" };

export class Outgoing {
  /** accepted(key, message) is called when the gateway has accepted it; edit(text) puts a refused text into the box. */
  constructor(list, { accepted, edit }) {
    this.list = list;
    this.accepted = accepted;
    this.edit = edit;
    this.queues = new Map();
    this.failures = new Map();
    this.busy = new Set();
    for (const key of keptNames("out.")) this.queue(key);
    addEventListener("online", () => this.kickAll());
  }

  queue(key) {
    if (!this.queues.has(key)) this.queues.set(key, kept(`out.${key}`, []).map((one) => ({ ...one, state: "waiting" })));
    return this.queues.get(key);
  }

  /** Queues a message. `rev`: the view's rev when it was sent; the message's entry can only be newer. */
  add(key, text, rev, busy) {
    this.queue(key).push({ id: freshId(), text, rev, busy, state: "sending" });
    this.save(key);
    this.draw();
    this.kick(key);
  }

  save(key) {
    const open = this.queue(key).filter((one) => one.state !== "accepted");
    keep(`out.${key}`, open.map(({ id, text, rev, busy }) => ({ id, text, rev, busy })));
  }

  kickAll() {
    for (const key of this.queues.keys()) this.kick(key);
  }

  /** Sends what waits in one session, in order, one at a time. */
  async kick(key) {
    if (this.busy.has(key)) return;
    this.busy.add(key);
    let next;
    while ((next = this.queue(key).find((one) => one.state === "sending" || one.state === "waiting"))) {
      if (!(await this.send(key, next))) break;
    }
    this.busy.delete(key);
  }

  async send(key, message) {
    try {
      const answer = await ask("POST", at(key, "/messages"), { text: message.text, id: message.id, busy: message.busy, seen: message.rev ?? undefined });
      message.event = answer.event;
      message.waits = answer.why;
      message.state = "accepted";
      this.failures.delete(key);
      this.save(key);
      this.accepted(key, message);
    } catch (error) {
      return this.failed(key, message, error);
    } finally {
      this.draw();
    }
    return true;
  }

  failed(key, message, error) {
    const passing = error instanceof NoAnswer || error.status >= 500 || error.status === 429;
    if (error.status === 401) {
      message.state = "waiting"; // kicked again after the login
    } else if (passing) {
      message.state = "waiting";
      const count = this.failures.get(key) || 0;
      this.failures.set(key, count + 1);
      setTimeout(() => this.kick(key), PAUSES[Math.min(count, PAUSES.length - 1)]);
    } else {
      message.state = "refused";
      message.adopted = undefined;
      message.why = error.message;
      return true;
    }
    return false;
  }

  // ---------------------------------------------------------------- display

  /** Stops showing the messages that have become entries. Called before the view draws these entries. */
  seen(key, entries) {
    const queue = this.queue(key);
    if (!queue.length) return;
    for (const entry of entries) if (entry.role === "user") this.match(queue, entry);
    this.draw();
  }

  match(queue, entry) {
    const exact = queue.findIndex((one) => one.event === entry.event && one.event !== undefined);
    if (exact >= 0) return queue.splice(exact, 1);
    // The stream may be faster than the answer. Until the answer names the event, an entry with this text counts as it.
    const may = (one) => one.event === undefined && one.adopted === undefined && one.text === entry.text;
    const open = queue.find((one) => may(one) && entry.born > (one.rev ?? 0));
    if (open) open.adopted = entry.event;
  }

  /** Called after the answer. Removes the message if its entry is in the view already (`shown`). */
  settle(key, message, shown) {
    message.adopted = undefined;
    if (!shown) return;
    const queue = this.queue(key);
    queue.splice(queue.indexOf(message), 1);
    this.draw();
  }

  select(key) {
    this.key = key;
    this.list.replaceChildren();
    this.draw();
  }

  draw() {
    if (!this.key) return;
    const wanted = this.queue(this.key).filter((one) => one.adopted === undefined);
    const nodes = new Map([...this.list.children].map((node) => [node.dataset.id, node]));
    for (const message of wanted) {
      const node = nodes.get(message.id) || this.row(message);
      nodes.delete(message.id);
      node.dataset.state = message.state;
      say(node.querySelector(".state"), [TELLS[message.state], message.why].filter(Boolean).join(": "));
      node.querySelector(".options").hidden = message.state !== "refused";
      if (!node.isConnected) this.list.append(node);
    }
    for (const node of nodes.values()) node.remove();
  }

  row(message) {
    const discard = () => {
      const queue = this.queue(this.key);
      queue.splice(queue.indexOf(message), 1);
      this.save(this.key);
      this.draw();
    };
    const edit = () => {
      discard();
      this.edit(message.text);
    };
    return h(
      "li",
      { class: "entry user pending", "data-id": message.id },
      h("div", { class: "body" }, openly(message.text)),
      h("div", { class: "foot" },
        h("span", { class: "state" }),
        h("span", { class: "options", hidden: true },
          h("button", { type: "button", class: "tiny", onclick: edit }, "Edit"),
          h("button", { type: "button", class: "tiny", onclick: discard }, "Discard"))),
    );
  }
}
