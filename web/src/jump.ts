// Jumps to a message of the open session, or to what needs somebody there. Up to a near message, history is loaded into
// the view; a far one is shown in a separate view of the entries around it.

import { ask, at } from "./api.ts";
import { byId, show } from "./dom.ts";
import type { OpenSession } from "./open_session.ts";
import type { Place } from "./scroll.ts";
import type { Row, Transcript } from "./transcript.ts";
import type { SessionState, Stretch } from "./wire.ts";
import { t } from "./texts.ts";

const NEAR = 1000; // a message at most this many entries before the view is near
const AROUND = 60; // entries loaded before a message, and after it if it is far

interface JumpProps {
  reveal: (row: Row) => void;
  /** Changes the rows, and keeps the reader's place. */
  keep: (update: () => void, grew?: boolean) => void;
  place: Place;
  opened: () => OpenSession;
  anew: (session: SessionState) => Transcript;
  back: () => void;
  drawn: () => void;
  problem: (error: unknown) => void;
}

export class Jump {
  /** The last entry of a view that is apart; null if the newest entries are shown. */
  last: number | null = null;
  private props: JumpProps;
  private target: number | "open" | null = null;

  /**
   * opened() returns the open {key, view, watch}. anew(session) replaces its view by an empty one that gets no changes,
   * and returns it; back() returns to the newest entries.
   */
  constructor(props: JumpProps) {
    this.props = props;
    byId("later").addEventListener("click", () => this.later());
    byId("newest").addEventListener("click", () => props.back());
  }

  /** Goes to the entry with the seq `target`, or to the first row that needs somebody, once the view has its first snapshot. */
  aim(target: number | "open"): void {
    this.target = target;
    void this.go();
  }

  forget(): void {
    this.target = null;
    this.apart(null);
  }

  private apart(last: number | null): void {
    this.last = last;
    show(byId("apart"), last !== null);
  }

  async go(): Promise<void> {
    const { key, view } = this.props.opened();
    const seq = this.target;
    if (!seq || (view.rev === null && this.last === null)) return; // the first snapshot calls this again
    this.target = null;
    if (seq === "open") {
      const need = view.firstNeed(); // none if it was answered meanwhile
      return need && this.props.reveal(need);
    }
    try {
      if (!view.rows.has(`e${seq}`)) await this.reach(key!, view, seq);
    } catch (error) {
      return this.props.problem(error);
    }
    if (this.props.opened().key !== key) return;
    this.props.drawn();
    const row = this.props.opened().view.rows.get(`e${seq}`);
    if (!row) return this.props.problem(new Error(t("That message no longer exists.")));
    this.props.reveal(row);
  }

  private async reach(key: string, view: Transcript, seq: number): Promise<void> {
    const distance = (view.before.value ?? 0) - seq;
    if (this.last === null && distance <= 0) return; // the view has all entries from there on, so the message is gone
    if (this.last === null && distance <= NEAR) {
      const page = await ask<Stretch>("GET", at(key, `/history?limit=${Math.min(NEAR, distance + AROUND)}&before=${view.before.value}`));
      if (this.props.opened().view === view) this.props.keep(() => view.prepend(page), false);
      return;
    }
    const page = await ask<Stretch>("GET", at(key, `/history?limit=${2 * AROUND}&before=${seq + AROUND}`));
    if (this.props.opened().view !== view) return;
    const apart = this.props.anew(view.session.value);
    this.props.keep(() => apart.prepend(page));
    this.apart(page.entries.at(-1)?.seq ?? seq);
  }

  /** Loads the entries after the separate view; after the last page, returns to the newest entries. */
  private async later(): Promise<void> {
    const { key, view } = this.props.opened();
    try {
      const page = await ask<Stretch>("GET", at(key!, `/history?limit=100&before=${this.last! + 101}`));
      if (this.props.opened().view !== view) return;
      const fresh = page.entries.filter((entry) => entry.seq > this.last!);
      this.props.place.pinned = false; // the reader goes on reading here: do not scroll to the end
      this.props.keep(() => view.append(page));
      if (fresh.length < 100) return byId("newest").click();
      this.apart(fresh.at(-1)!.seq);
    } catch (error) {
      this.props.problem(error);
    }
  }
}
