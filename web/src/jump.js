// Jumps to a message of the open session. Up to a near message, history is loaded into the view; a far one is shown in
// a separate view of the entries around it.

import { ask, at } from "./api.ts";
import { byId, show } from "./dom.js";

const NEAR = 1000; // a message at most this many entries before the view is near
const AROUND = 60; // entries loaded before a message, and after it if it is far

export class Jump {
  /**
   * opened() returns the open {key, view, watch}. anew(session) replaces its view by an empty one that gets no changes,
   * and returns it; back() returns to the newest entries.
   */
  constructor({ reveal, keep, place, opened, anew, back, drawn, problem }) {
    Object.assign(this, { reveal, keep, place, opened, anew, show: drawn, problem });
    byId("later").addEventListener("click", () => this.later());
    byId("newest").addEventListener("click", () => back());
  }

  /** Goes to the entry `seq`, as soon as the view has its first snapshot. */
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
    if (!seq || (view.rev === null && this.last === null)) return; // the first snapshot calls this again
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
    this.reveal(row);
  }

  async reach(key, view, seq) {
    const distance = (view.before.value ?? 0) - seq;
    if (this.last === null && distance <= 0) return; // the view has all entries from there on, so the message is gone
    if (this.last === null && distance <= NEAR) {
      const page = await ask("GET", at(key, `/history?limit=${Math.min(NEAR, distance + AROUND)}&before=${view.before.value}`));
      if (this.opened().view === view) this.keep(() => view.prepend(page), false);
      return;
    }
    const page = await ask("GET", at(key, `/history?limit=${2 * AROUND}&before=${seq + AROUND}`));
    if (this.opened().view !== view) return;
    const apart = this.anew(view.session.value);
    this.keep(() => apart.prepend(page));
    this.apart(page.entries.at(-1)?.seq ?? seq);
  }

  /** Loads the entries after the separate view; after the last page, returns to the newest entries. */
  async later() {
    const { key, view } = this.opened();
    try {
      const page = await ask("GET", at(key, `/history?limit=100&before=${this.last + 101}`));
      if (this.opened().view !== view) return;
      const fresh = page.entries.filter((entry) => entry.seq > this.last);
      this.place.pinned = false; // the reader goes on reading here: do not scroll to the end
      this.keep(() => view.append(page));
      if (fresh.length < 100) return byId("newest").click();
      this.apart(fresh.at(-1).seq);
    } catch (error) {
      this.problem(error);
    }
  }
}
