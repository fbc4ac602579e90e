// The record of one session as its view needs it: rows by seq (entries) and id (items), in the order of `born`. Each is
// shown once (Law 8). Rows are signals: text that joins a row redraws that row alone.

import { type Signal, batch, signal } from "@preact/signals";
import { waits } from "./busy_texts.ts";
import type { Change, Entry, Frame, Item, SessionState, Snapshot, Stretch } from "./wire.ts";

const MAX_ROWS = 1500; // of a view that is followed: beyond, the oldest are let go
const KEPT_ROWS = 1000;

const SHOWN_KINDS = new Set(["tool", "thought", "plan", "permission", "ask", "notice"]);

export const isEntry = (data: Entry | Item): data is Entry => "seq" in data;

/** One row of the view. */
export class Row {
  readonly key: string;
  readonly data: Signal<Entry | Item>;
  /** Where it stands: its `born`, unless it belongs right below another row. */
  born: number;
  /** Of a tool call: the row of its permission request, which this row shows once that is closed. */
  readonly request = signal<Row | null>(null);
  /** Of a request: the row of the tool call that shows it. */
  call: Row | null = null;
  /** Of a question: the row that has its answers as buttons. */
  readonly card = signal<Row | null>(null);
  /** Of an entry that waits for a turn: its place in the queue, and why it waits, as text. */
  readonly line = signal("");

  constructor(key: string, data: Entry | Item, born: number) {
    this.key = key;
    this.data = signal(data);
    this.born = born;
  }

  /** Whether the row is in the view. Some kinds of items are shown elsewhere, or not known to this page. */
  isShown(): boolean {
    const data = this.data.peek();
    if (isEntry(data)) return true;
    if (!SHOWN_KINDS.has(data.kind) || this.call) return false;
    return data.kind !== "ask" || Boolean(data.options?.length);
  }

  /** Whether the row shows what the agent says or does. */
  isAgents(): boolean {
    const data = this.data.peek();
    return isEntry(data) ? data.role === "agent" : data.kind !== "notice";
  }
}

/** Whether a row is still written, waits for a turn, or waits for a person. */
function isUnsettled(row: Row): boolean {
  const data = row.data.peek();
  return Boolean(data.live || (isEntry(data) ? data.waiting : data.state === "open"));
}

/** Whether a row has something to decide: an open request or question, or a held part. */
function needsPerson(row: Row): boolean {
  const data = row.data.peek();
  return isEntry(data) ? Boolean(data.delivery?.some((one) => one.state === "held")) : data.state === "open";
}

/** Whether a row is an entry of somebody else than the agent: what an agent did belongs together. */
function beginsTurn(row: Row): boolean {
  const data = row.data.peek();
  return isEntry(data) && data.role !== "agent";
}

export class Transcript {
  readonly rows = new Map<string, Row>();
  /** The rows that are in the view, in order. A new list whenever a row comes, goes or moves. */
  readonly shown = signal<readonly Row[]>([]);
  readonly session = signal<SessionState>({});
  /** The `before` of the next request for older history; null: there is no older one. */
  readonly before = signal<number | null>(null);
  /** Whether the last change of `shown` put rows in front of all others. */
  readonly prepended = signal(false);
  rev: number | null = null;
  /** event -> why its message was not taken in the requested busy mode. */
  readonly whys = new Map<number, string>();

  private order: Row[] = [];
  private moved = false; // since `shown` was made
  private places = new Map<string, number>(); // items whose place in the view is not their `born`
  private questions = new Map<string, Row>(); // by the keys of their cards
  private waiting = new Set<Row>();
  private requests = new Set<Row>(); // permission requests that no tool call's row shows yet

  /** Applies a snapshot or a change. Returns the entries that became final with a change. */
  apply(frame: Frame): Entry[] {
    const final: Entry[] = [];
    batch(() => {
      if (frame.type === "snapshot") {
        this.replace(frame);
        this.rev = frame.rev;
      } else {
        const seen = this.rev ?? 0;
        for (const change of frame.changes) if (change.rev > seen) this.change(change, final);
        this.rev = Math.max(frame.rev, seen);
      }
      this.lineUp();
      this.show(false);
    });
    return final;
  }

  private change(change: Change, final: Entry[]): void {
    switch (change.op) {
      case "entry": {
        if (this.isOlder(`e${change.seq}`, change)) return;
        const before = this.rows.get(`e${change.seq}`)?.data.peek();
        if (!change.live && (!before || before.live)) final.push(change);
        return this.put(`e${change.seq}`, change);
      }
      case "item":
        return this.isOlder(`i${change.id}`, change) ? undefined : this.put(`i${change.id}`, change);
      case "append":
        return this.grow(`e${change.seq}`, change.text);
      case "output":
        return this.grow(`i${change.id}`, change.text);
      case "session":
        this.session.value = change;
    }
  }

  private grow(key: string, text: string): void {
    const row = this.rows.get(key);
    if (row) row.data.value = { ...row.data.peek(), text: row.data.peek().text + text };
  }

  /** Whether a changed row is part of older history that the view does not have: it would stand there without it. */
  private isOlder(key: string, data: Entry | Item): boolean {
    const first = this.before.peek() === null ? undefined : this.rows.get(`e${this.before.peek()}`);
    return first !== undefined && data.born < first.born && !this.rows.has(key) && !this.places.has(key);
  }

  private put(key: string, data: Entry | Item): void {
    let row = this.rows.get(key);
    if (row) {
      const before = row.isShown();
      row.data.value = data;
      this.moved ||= before !== row.isShown();
    } else {
      row = new Row(key, data, this.places.get(key) ?? data.born);
      this.rows.set(key, row);
      this.place(row);
    }
    if (isEntry(data)) {
      if (data.waiting) this.waiting.add(row);
      else if (this.waiting.delete(row)) row.line.value = "";
      if (data.kind === "ask" && data.item) this.askedBy(row, data, data.item);
    } else {
      const question = this.questions.get(key);
      if (question) question.card.value = row;
      if (data.kind === "permission" && !row.call) this.requests.add(row);
      if (data.kind === "permission" || data.kind === "tool") this.joinRequests();
    }
  }

  /** Puts a row that is not in the order where its `born` says. */
  private place(row: Row): void {
    let low = 0;
    let high = this.order.length;
    if (high && this.order[high - 1]!.born <= row.born) low = high;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.order[middle]!.born > row.born) high = middle;
      else low = middle + 1;
    }
    this.order.splice(low, 0, row);
    this.moved = true;
  }

  private takeOut(row: Row): void {
    const place = this.order.indexOf(row);
    if (place >= 0) this.order.splice(place, 1);
    this.moved = true;
  }

  /** Makes `shown` anew if a row came, went or moved. */
  private show(prepended: boolean): void {
    if (!this.moved) return;
    this.moved = false;
    this.prepended.value = prepended;
    this.shown.value = this.order.filter((row) => row.isShown());
  }

  /** Shows the outcome of each closed request in the row of its tool call, instead of in a row of its own. */
  private joinRequests(): void {
    for (const request of this.requests) {
      const call = (request.data.peek() as Item).state !== "open" && this.callOf(request);
      if (!call) continue;
      call.request.value = request;
      request.call = call;
      this.requests.delete(request);
      this.moved = true;
    }
  }

  /**
   * The row of the tool call that a request is about: the one with the call's id. If there is none (older versions did
   * not tell the id, and some agents give requests ids of their own), a row with the same title or input: the last one
   * before it, else the first one after it. Of a call that was asked for before, each further request keeps its own row.
   */
  private callOf(request: Row): Row | undefined {
    const { turn, title, input, call: id } = request.data.peek() as Item;
    const told = input ? JSON.stringify(input) : undefined;
    const ofTurn = this.order.filter((row) => {
      const data = row.data.peek();
      return !isEntry(data) && data.kind === "tool" && data.turn === turn;
    });
    const item = (row: Row) => row.data.peek() as Item;
    const named = ofTurn.filter((row) => id && item(row).call === id);
    const alike = (row: Row) => item(row).title === title || (told !== undefined && JSON.stringify(item(row).input) === told);
    const calls = (named.length ? named : ofTurn.filter(alike)).filter((row) => !row.request.peek());
    return calls.findLast((call) => call.born < request.born) ?? calls[0];
  }

  /** Moves the item that has a question's answer buttons right below the question's entry. */
  private askedBy(question: Row, entry: Entry, item: number): void {
    const key = `i${item}`;
    this.questions.set(key, question);
    question.card.value = this.rows.get(key) ?? null;
    if (this.places.has(key)) return;
    this.places.set(key, entry.born + 0.5);
    const row = this.rows.get(key);
    if (!row) return;
    this.takeOut(row);
    row.born = entry.born + 0.5;
    this.place(row);
  }

  /** Updates the place in the queue that each waiting entry shows. */
  lineUp(): void {
    const rows = [...this.waiting].sort((a, b) => a.born - b.born);
    rows.forEach((row, before) => {
      const { waiting, event } = row.data.peek() as Entry;
      row.line.value = [waits(waiting ?? "queue", before + 1), this.whys.get(event ?? 0)].filter(Boolean).join(": ");
    });
  }

  private remove(row: Row): void {
    this.waiting.delete(row);
    this.requests.delete(row);
    if (row.call) row.call.request.value = null;
    const request = row.request.peek();
    if (request) {
      request.call = null; // it is a row of its own again
      this.requests.add(request);
    }
    const question = this.questions.get(row.key);
    if (question) question.card.value = null;
    this.takeOut(row);
    this.rows.delete(row.key);
  }

  /** Replaces the rows by those of a snapshot. Older rows stay only if no entry is missing between them and it. */
  private replace(snapshot: Snapshot): void {
    const keys = new Set([...snapshot.entries.map(({ seq }) => `e${seq}`), ...snapshot.items.map(({ id }) => `i${id}`)]);
    const oldest = snapshot.entries[0];
    const joins = snapshot.more && oldest && this.rows.has(`e${oldest.seq - 1}`);
    for (const row of [...this.rows.values()]) {
      const older = joins && row.born < oldest.born;
      if (!keys.has(row.key) && !older) this.remove(row);
    }
    this.session.value = snapshot.session;
    this.take(snapshot);
    if (!joins) this.before.value = snapshot.more ? snapshot.before ?? oldest?.seq ?? null : null;
  }

  private take(stretch: Pick<Stretch, "entries" | "items">): void {
    for (const entry of stretch.entries) this.put(`e${entry.seq}`, entry);
    for (const item of stretch.items) this.put(`i${item.id}`, item);
  }

  /** Adds a page of older history. Rows that are in the view already are newer, and do not change. */
  prepend(older: Stretch): void {
    batch(() => {
      this.insert(older);
      this.before.value = older.more ? older.before ?? older.entries[0]?.seq ?? null : null;
      this.show(true);
    });
  }

  /** Adds a page that follows the rows of a view that gets no changes. */
  append(newer: Stretch): void {
    batch(() => {
      this.insert(newer);
      this.show(false);
    });
  }

  /**
   * Lets the oldest rows of a long view go, so that a page that follows a session for days does not grow. They are older
   * history from then on. Rows stay while something in front of them is not settled. Returns whether any went.
   */
  trim(): boolean {
    if (this.order.length <= MAX_ROWS) return false;
    const last = this.order.length - KEPT_ROWS;
    const open = this.order.findIndex(isUnsettled);
    const most = open < 0 ? last : Math.min(open, last);
    const cut = this.order.findLastIndex((row, place) => place <= most && beginsTurn(row));
    if (cut <= 0) return false;
    batch(() => {
      const gone = this.order.slice(0, cut);
      this.before.value = (this.order[cut]!.data.peek() as Entry).seq;
      for (const row of gone) this.remove(row);
      this.show(true);
    });
    return true;
  }

  private insert(stretch: Stretch): void {
    this.take({
      entries: stretch.entries.filter((entry) => !this.rows.has(`e${entry.seq}`)),
      items: stretch.items.filter((item) => !this.rows.has(`i${item.id}`)),
    });
  }

  items(kind: string): Item[] {
    const all = this.order.map((row) => row.data.peek());
    return all.filter((data): data is Item => !isEntry(data) && data.kind === kind);
  }

  /** The first row that needs somebody, of those loaded. */
  firstNeed(): Row | undefined {
    return this.shown.peek().find(needsPerson);
  }

  hasEntryOf(event: number | undefined): boolean {
    return this.order.some((row) => {
      const data = row.data.peek();
      return isEntry(data) && data.event === event;
    });
  }
}
