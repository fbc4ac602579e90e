// A watcher's copy of one session, folded from the frames of its stream. The types are those of the OpenAPI document.

import type { components } from "./schema.js";

export type Entry = components["schemas"]["Entry"];
export type Item = components["schemas"]["Item"];
export type Frame = components["schemas"]["Frame"];
type Change = components["schemas"]["Change"];
type Session = components["schemas"]["SessionState"];

export class View {
  rev: number | undefined; // undefined before the first frame
  session: Session | undefined;
  readonly entries = new Map<number, Entry>(); // by seq
  readonly items = new Map<number, Item>(); // by id

  /** Applies a frame. A change that the view has already is skipped, so a frame may come twice. */
  apply(frame: Frame): void {
    if (frame.type === "snapshot") {
      this.session = frame.session;
      this.entries.clear();
      this.items.clear();
      for (const entry of frame.entries) this.entries.set(entry.seq, entry);
      for (const item of frame.items) this.items.set(item.id, item);
    } else {
      const seen = this.rev ?? 0;
      for (const change of frame.changes) if (change.rev > seen) this.change(change);
    }
    this.rev = frame.rev;
  }

  private change(change: Change): void {
    switch (change.op) {
      case "entry": {
        const { op, ...entry } = change;
        this.entries.set(entry.seq, entry);
        break;
      }
      case "append": {
        const entry = this.entries.get(change.seq);
        if (entry) this.entries.set(entry.seq, { ...entry, text: entry.text + change.text, rev: change.rev });
        break;
      }
      case "item": {
        const { op, ...item } = change;
        this.items.set(item.id, item);
        break;
      }
      case "output": {
        const item = this.items.get(change.id);
        if (item) this.items.set(item.id, { ...item, text: item.text + change.text, rev: change.rev });
        break;
      }
      case "session": {
        const { op, rev, ...session } = change;
        this.session = session;
        break;
      }
    }
  }

  /** Entries and items, in the order in which a person sees them. */
  rows(): (Entry | Item)[] {
    return [...this.entries.values(), ...this.items.values()].sort((a, b) => a.born - b.born);
  }
}
