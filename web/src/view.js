// The view of one session: rows by seq (entries) and id (items), in the order of `born`. Each is shown once.

import { EntryRow } from "./entry.js";
import { BrokenRow, itemRow } from "./item.js";

/** Whether a row shows what the agent says or does. */
function ofAgent({ node }) {
  return node.classList.contains("agent") || (node.classList.contains("item") && !node.classList.contains("notice"));
}

export class View {
  constructor(list, context) {
    this.list = list;
    this.context = context;
    this.rows = new Map();
    this.order = []; // the rows, by `born`
    this.places = new Map(); // items whose place in the view is not their `born`
    this.rev = null;
    this.session = {};
    this.waiting = new Set(); // keys of the entries that wait for a turn
    this.requests = new Map(); // permission requests that no tool call's row shows yet, by key
    this.whys = new Map(); // event -> why its message was not taken in the requested busy mode
    this.before = null; // the `before` of the next request for older history; null: there is no older one
  }

  /** Applies a snapshot or a change. Returns the entries that became final with a change. */
  apply(frame) {
    const final = [];
    if (frame.type === "snapshot") {
      this.replace(frame);
    } else {
      const seen = this.rev ?? 0;
      for (const change of frame.changes) if (change.rev > seen) this.change(change, final);
    }
    this.rev = Math.max(frame.rev, frame.type === "snapshot" ? 0 : this.rev ?? 0);
    this.lineUp();
    return final;
  }

  change(change, final) {
    switch (change.op) {
      case "entry": {
        const before = this.rows.get(`e${change.seq}`);
        if (!change.live && (!before || before.data.live)) final.push(change);
        return this.put(`e${change.seq}`, change);
      }
      case "item":
        return this.put(`i${change.id}`, change);
      case "append":
        return this.rows.get(`e${change.seq}`)?.grow(change.text);
      case "output":
        return this.rows.get(`i${change.id}`)?.grow(change.text);
      case "session":
        this.session = change;
    }
  }

  put(key, data) {
    if (key[0] === "e" && data.waiting) this.waiting.add(key);
    else this.waiting.delete(key);
    if (key[0] === "e" && data.kind === "ask" && data.item) this.askedBy(data);
    const row = this.rows.get(key);
    const fresh = this.drawn(key, data, row);
    if (fresh !== row) {
      fresh.node.dataset.key = key;
      fresh.born = this.places.get(key) ?? data.born;
      if (row) this.takeOut(row);
      this.rows.set(key, fresh);
      this.place(fresh);
    }
    if (data.kind === "permission" && !fresh.call) this.requests.set(key, fresh);
    if (data.kind === "permission" || data.kind === "tool") this.joinRequests();
  }

  /** Shows the outcome of each closed request in the row of its tool call, instead of in a row of its own. */
  joinRequests() {
    for (const [key, request] of this.requests) {
      const call = request.data.state !== "open" && this.callOf(request);
      if (!call) continue;
      call.setRequest(request);
      this.requests.delete(key);
    }
  }

  /**
   * The row of the tool call that a request is about: the one with the call's id. If there is none (older versions did
   * not tell the id, and some agents give requests ids of their own), a row with the same title or input: the last one
   * before it, else the first one after it. Of a call that was asked for before, each further request keeps its own row.
   */
  callOf(request) {
    const { turn, title, input, call: id } = request.data;
    const told = input && JSON.stringify(input);
    const alike = ({ data }) => data.title === title || (told && JSON.stringify(data.input) === told);
    const ofTurn = [...this.rows.values()].filter((row) => row.setRequest && row.data.turn === turn);
    const named = ofTurn.filter(({ data }) => id && data.call === id);
    const calls = (named.length ? named : ofTurn.filter(alike)).filter((row) => !row.request).sort((a, b) => a.born - b.born);
    return calls.findLast((call) => call.born < request.born) ?? calls[0];
  }

  /** The row for this data: the old one, updated, or a new one; a BrokenRow if the data cannot be drawn. */
  drawn(key, data, row) {
    try {
      if (!row || row instanceof BrokenRow) return key[0] === "e" ? new EntryRow(data, this.context) : itemRow(data, this.context);
      row.set(data);
      return row;
    } catch (error) {
      console.warn(`${key} cannot be drawn`, error);
      return new BrokenRow(data);
    }
  }

  /** Puts a row that is not in the list where its `born` says. */
  place(row) {
    let low = 0;
    let high = this.order.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.order[middle].born > row.born) high = middle;
      else low = middle + 1;
    }
    this.list.insertBefore(row.node, this.order[low]?.node ?? null);
    this.order.splice(low, 0, row);
    this.nameSpeaker(low);
    this.nameSpeaker(low + 1);
  }

  takeOut(row) {
    const place = this.order.indexOf(row);
    if (place >= 0) this.order.splice(place, 1);
    row.node.remove();
    this.nameSpeaker(place);
  }

  /** Marks the next visible row from `place` on if the agent begins to speak or act there: it shows who it is. */
  nameSpeaker(place) {
    while (this.order[place]?.node.hidden) place++;
    const row = this.order[place];
    if (!row) return;
    let before = place - 1;
    while (this.order[before]?.node.hidden) before--;
    row.node.classList.toggle("begins", ofAgent(row) && !(before >= 0 && ofAgent(this.order[before])));
  }

  /** Moves the item that has a question's answer buttons right below the question's entry. */
  askedBy(entry) {
    const key = `i${entry.item}`;
    if (this.places.has(key)) return;
    this.places.set(key, entry.born + 0.5);
    const row = this.rows.get(key);
    if (!row) return;
    this.takeOut(row);
    row.born = entry.born + 0.5;
    this.place(row);
  }

  /** Updates the place in the queue that each waiting entry shows. */
  lineUp() {
    const rows = [...this.waiting].map((key) => this.rows.get(key)).sort((a, b) => a.born - b.born);
    rows.forEach((row, before) => row.line(before + 1, this.whys.get(row.data.event)));
  }

  remove(key) {
    this.waiting.delete(key);
    this.requests.delete(key);
    if (this.rows.has(key)) this.takeOut(this.rows.get(key));
    this.rows.delete(key);
  }

  /** Replaces the rows by those of a snapshot. Older rows stay only if no entry is missing between them and it. */
  replace(snapshot) {
    const keys = new Set();
    for (const entry of snapshot.entries) keys.add(`e${entry.seq}`);
    for (const item of snapshot.items) keys.add(`i${item.id}`);
    const oldest = snapshot.entries[0];
    const joins = snapshot.more && oldest && this.rows.has(`e${oldest.seq - 1}`) && this.before !== undefined;
    for (const [key, row] of this.rows) {
      const older = joins && row.born < oldest.born;
      if (!keys.has(key) && !older) this.remove(key);
    }
    this.session = snapshot.session;
    this.take(snapshot);
    if (!joins) this.before = snapshot.more ? snapshot.before ?? oldest?.seq : null;
  }

  take(stretch) {
    for (const entry of stretch.entries) this.put(`e${entry.seq}`, entry);
    for (const item of stretch.items) this.put(`i${item.id}`, item);
  }

  /** Adds a page of older history. Rows that are in the view already are newer, and do not change. */
  prepend(older) {
    this.take({
      entries: older.entries.filter((entry) => !this.rows.has(`e${entry.seq}`)),
      items: older.items.filter((item) => !this.rows.has(`i${item.id}`)),
    });
    this.before = older.more ? older.before ?? older.entries[0]?.seq ?? null : null;
  }

  items(kind) {
    return [...this.rows.values()].map((row) => row.data).filter((data) => data.kind === kind && "id" in data);
  }

  entryOf(event) {
    for (const row of this.rows.values()) if (row.data.event === event && "seq" in row.data) return row;
  }
}
