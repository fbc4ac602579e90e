// The list of sessions. Rows are reused by key, so that an update moves neither the focus nor the scroll position.

import { ask } from "./api.ts";
import { ago, byId, called, h, say, show } from "./dom.js";

const EVERY = 10000;
const MOST = 1000; // the API's limit for one request; search finds older sessions

export class Sessions {
  constructor(choose) {
    this.choose = choose;
    this.list = byId("sessions");
    this.rows = new Map();
    this.found = [];
    this.archived = false;
    this.most = 200;
    this.more = byId("more-sessions");
    this.more.addEventListener("click", () => {
      this.most = Math.min(MOST, this.most * 2);
      this.refresh();
    });
    this.toggle = byId("archived");
    this.toggle.addEventListener("click", () => {
      this.archived = !this.archived;
      this.toggle.setAttribute("aria-pressed", String(this.archived));
      this.refresh();
    });
    setInterval(() => document.visibilityState === "visible" && this.refresh(), EVERY);
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && this.refresh());
  }

  /** Refreshes the list in 300 ms. Several calls make one request. */
  soon() {
    this.timer ??= setTimeout(() => this.refresh(), 300);
  }

  async refresh() {
    clearTimeout(this.timer);
    this.timer = undefined;
    try {
      const found = await ask("GET", `/v1/sessions?limit=${this.most}${this.archived ? "&archived=1" : ""}`);
      this.found = found.sessions;
      show(this.more, Boolean(found.more) && this.most < MOST);
    } catch {
      return; // the connection's state is shown elsewhere
    }
    this.draw();
  }

  select(key) {
    this.key = key;
    this.draw();
  }

  draw() {
    const sorted = [...this.found].sort((a, b) => b.at - a.at);
    const gone = new Set(this.rows.keys());
    sorted.forEach((session, place) => {
      gone.delete(session.key);
      const row = this.rows.get(session.key) || this.row(session.key);
      this.fill(row, session);
      if (this.list.children[place] !== row.node && !row.node.contains(document.activeElement)) {
        this.list.insertBefore(row.node, this.list.children[place] || null);
      }
    });
    for (const key of gone) {
      this.rows.get(key).node.remove();
      this.rows.delete(key);
    }
    show(byId("no-sessions"), sorted.length === 0);
    say(byId("no-sessions"), this.archived ? "No session is archived." : "No sessions yet. Say something to start one.");
    say(this.toggle, this.archived ? "Back to the other sessions" : "Archived");
  }

  row(key) {
    const row = { title: h("b"), when: h("small"), last: h("span", { class: "last" }), sign: h("span", { class: "dot" }) };
    const link = h("a", { href: `#/s/${encodeURIComponent(key)}` }, row.sign, row.title, row.when, row.last);
    link.addEventListener("click", () => this.choose());
    row.link = link;
    row.node = h("li", {}, link);
    this.rows.set(key, row);
    this.list.append(row.node);
    return row;
  }

  fill(row, session) {
    say(row.title, called(session));
    row.title.title = session.key;
    say(row.when, session.at ? ago(session.at) : "");
    say(row.last, session.last || "");
    row.sign.dataset.state = session.state;
    const state = session.state === "running" ? "running" : session.state === "waiting" ? "waiting" : "";
    row.sign.title = state;
    if (session.key === this.key) row.link.setAttribute("aria-current", "page");
    else row.link.removeAttribute("aria-current");
  }
}
