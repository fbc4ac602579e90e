// To one message of the session that is open: near enough, the view is filled up to it; far away, it is shown apart.

import { ask, at } from "/page/api.js";
import { byId, show } from "/page/dom.js";

const NEAR = 1000; // entries that are loaded to reach a message without leaving the newest ones
const AROUND = 60;

export class Jump {
  /** opened() is what is open: {key, view, watch}; anew(session) puts another view in its place, without a watch. */
  constructor({ place, opened, anew, back, drawn, problem }) {
    Object.assign(this, { place, opened, anew, show: drawn, problem });
    byId("later").addEventListener("click", () => this.later());
    byId("newest").addEventListener("click", () => back());
  }

  /** The seq to go to as soon as the view is there. */
  aim(seq) {
    this.target = seq;
    this.go();
  }

  forget() {
    this.target = null;
    this.apart(null);
  }

  apart(last) {
    this.last = last;
    show(byId("apart"), last !== null);
  }

  async go() {
    const { key, view } = this.opened();
    const seq = this.target;
    if (!seq || (view.rev === null && this.last === null)) return; // the first snapshot brings us here again
    this.target = null;
    try {
      if (!view.rows.has(`e${seq}`)) await this.reach(key, view, seq);
    } catch (error) {
      return this.problem(error);
    }
    if (this.opened().key !== key) return;
    this.show();
    const row = this.opened().view.rows.get(`e${seq}`);
    if (!row) return this.problem(new Error("That message no longer exists."));
    this.place.reveal(row.node);
  }

  async reach(key, view, seq) {
    const distance = (view.before ?? 0) - seq;
    if (this.last === null && distance <= 0) return; // everything from there on is here
    if (this.last === null && distance <= NEAR) {
      const page = await ask("GET", at(key, `/history?html=1&limit=${Math.min(NEAR, distance + AROUND)}&before=${view.before}`));
      if (this.opened().view === view) view.prepend(page);
      return;
    }
    const page = await ask("GET", at(key, `/history?html=1&limit=${2 * AROUND}&before=${seq + AROUND}`));
    if (this.opened().view !== view) return;
    this.anew(view.session).prepend(page);
    this.apart(page.entries.at(-1)?.seq ?? seq);
  }

  /** What came after the stretch that is shown apart; at its end, back to the newest. */
  async later() {
    const { key, view } = this.opened();
    try {
      const page = await ask("GET", at(key, `/history?html=1&limit=100&before=${this.last + 101}`));
      if (this.opened().view !== view) return;
      const fresh = page.entries.filter((entry) => entry.seq > this.last);
      const held = view.before;
      this.place.pinned = false; // who reads on from here stays here
      this.place.keep(() => view.prepend(page));
      view.before = held;
      if (fresh.length < 100) return byId("newest").click();
      this.apart(fresh.at(-1).seq);
    } catch (error) {
      this.problem(error);
    }
  }
}
