// Messages on their way to the gateway. Each gets an id here, which every retry repeats, and is kept in local storage
// until the gateway acknowledges it. So a lost answer sends nothing twice, and a reload loses nothing (Laws 1 and 8).

import { NoAnswer, ANSWER_TIMEOUT_MS, Problem, ask, at, messageOf, statusOf } from "./api.ts";
import { keep, kept, keptNames } from "./kept.ts";
import { freshId } from "./text.ts";
import type { BusyMode, Entry, FileRef } from "./wire.ts";

const MAX_TAKEN_BACK = 100; // ids of messages that are remembered, for other tabs that hold them, too
const PAUSES_MS = [500, 1000, 2000, 4000, 8000, 15000];

export interface OutgoingMessage {
  id: string;
  text: string;
  /** The view's rev when it was sent: the message's entry can only be newer. */
  rev: number | null;
  busy?: BusyMode;
  /** Uploaded files that come with the text. */
  files?: FileRef[];
  state: "sending" | "waiting" | "accepted" | "refused";
  /** Whether a request with it has left: from then on, the gateway may have it. */
  tried: boolean;
  /** The event that the gateway's answer named. */
  event?: number;
  /** The event of an entry with this text, which counts as this message until the answer names its event. */
  adopted?: number;
  /** Why it was not taken in the requested way. */
  waits?: string;
  /** Why it was refused. */
  why?: string;
}

export interface OutgoingEvents {
  /** Called when the gateway has accepted a message. */
  accepted: (key: string, message: OutgoingMessage) => void;
  /** Called when what is shown of the messages of any session may have changed. */
  changed: () => void;
}

export class Outgoing {
  private queues = new Map<string, OutgoingMessage[]>();
  private failures = new Map<string, number>();
  private busy = new Set<string>();
  private saved = new Set<string>(); // ids of messages that were in the storage once
  private events: OutgoingEvents;
  private connection = new AbortController(); // ended when a new line replaces the one on which requests wait

  constructor(events: OutgoingEvents) {
    this.events = events;
    for (const key of keptNames("out.")) this.queue(key);
    addEventListener("online", () => this.kickAll());
  }

  private queue(key: string): OutgoingMessage[] {
    let queue = this.queues.get(key);
    if (!queue) {
      queue = kept<OutgoingMessage[]>(`out.${key}`, []).map((one) => ({ ...one, state: "waiting", tried: one.tried ?? true }));
      this.queues.set(key, queue);
      for (const { id } of queue) this.saved.add(id);
    }
    return queue;
  }

  /** The messages of a session that no entry shows yet, in order. */
  shown(key: string): OutgoingMessage[] {
    return this.queue(key).filter((one) => one.adopted === undefined);
  }

  /** Queues a message and sends it, behind those that wait. */
  add(key: string, text: string, rev: number | null, busy?: BusyMode, files?: FileRef[]): void {
    this.queue(key).push({ id: freshId(), text, rev, busy, files: files?.length ? files : undefined, state: "sending", tried: false });
    this.save(key);
    this.events.changed();
    void this.kick(key);
  }

  /** Whether the gateway cannot have a message: it refused it, or no request with it has left, from any tab. */
  isHere(key: string, message: OutgoingMessage): boolean {
    this.learn(key);
    return message.state === "refused" || !message.tried;
  }

  /** Takes back a message, for all tabs. Returns false if the gateway may have it: then nothing changes. */
  takeBack(key: string, message: OutgoingMessage): boolean {
    if (!this.isHere(key, message)) return false;
    keep("taken", [...kept<string[]>("taken", []), message.id].slice(-MAX_TAKEN_BACK));
    this.forget(key, message);
    return true;
  }

  private forget(key: string, message: OutgoingMessage): void {
    this.drop(this.queue(key), message);
    this.save(key);
    this.events.changed();
  }

  /** Takes over what other tabs have done with the messages: one that they tried, or that is no longer kept, may have left. */
  private learn(key: string): void {
    const stored = new Map(kept<OutgoingMessage[]>(`out.${key}`, []).map(({ id, tried }) => [id, tried]));
    for (const one of this.queue(key)) if (this.saved.has(one.id) && stored.get(one.id) !== false) one.tried = true;
  }

  /** Sends a message that was refused, or that waits for a connection, again: under its id, so it is heard once. */
  again(key: string, message: OutgoingMessage): void {
    message.state = "sending";
    message.why = undefined;
    this.events.changed();
    void this.kick(key);
  }

  /** A lost line was replaced: what waits for an answer on the old one, or for its next attempt, is sent again now. */
  resendWaiting(): void {
    this.failures.clear();
    this.connection.abort();
    this.connection = new AbortController();
    this.kickAll();
  }

  kickAll(): void {
    for (const key of this.queues.keys()) void this.kick(key);
  }

  /** Sends what waits in one session, in order, one at a time. */
  async kick(key: string): Promise<void> {
    if (this.busy.has(key)) return;
    this.busy.add(key);
    let next;
    while ((next = this.queue(key).find((one) => one.state === "sending" || one.state === "waiting"))) {
      if (!(await this.send(key, next))) break;
    }
    this.busy.delete(key);
  }

  /** Returns whether the next message may be sent. */
  private async send(key: string, message: OutgoingMessage): Promise<boolean> {
    if (kept<string[]>("taken", []).includes(message.id)) {
      this.forget(key, message); // in another tab
      return true;
    }
    message.tried = true;
    this.save(key); // before the request: whatever becomes of the page, it may have left (Law 7)
    try {
      const { text, id, busy, rev } = message;
      const files = message.files?.map((file) => ({ id: file.id, name: file.name }));
      const body = { text, id, busy, seen: rev ?? undefined, files };
      const answer = await ask<{ event: number; why?: string }>("POST", at(key, "/messages"), body, ANSWER_TIMEOUT_MS, this.connection.signal);
      message.event = answer.event;
      message.waits = answer.why;
      message.state = "accepted";
      this.failures.delete(key);
      this.save(key);
      this.events.accepted(key, message);
    } catch (error) {
      return this.failed(key, message, error);
    } finally {
      this.events.changed();
    }
    return true;
  }

  private failed(key: string, message: OutgoingMessage, error: unknown): boolean {
    const status = statusOf(error);
    if (status === 401) {
      message.state = "waiting"; // kicked again after the login
    } else if (error instanceof NoAnswer || status >= 500 || status === 429 || brokeOff(error)) {
      message.state = "waiting";
      const count = this.failures.get(key) ?? 0;
      this.failures.set(key, count + 1);
      setTimeout(() => this.kick(key), PAUSES_MS[Math.min(count, PAUSES_MS.length - 1)]);
    } else {
      message.state = "refused";
      message.adopted = undefined;
      message.why = messageOf(error);
      return true;
    }
    return false;
  }

  private save(key: string): void {
    this.learn(key);
    const open = this.queue(key).filter((one) => one.state !== "accepted");
    for (const { id } of open) this.saved.add(id);
    keep(`out.${key}`, open.map(({ id, text, rev, busy, files, tried }) => ({ id, text, rev, busy, files, tried })));
  }

  /** Stops showing the messages that have become entries. Called before the view draws these entries. */
  seen(key: string, entries: Entry[]): void {
    const queue = this.queue(key);
    if (!queue.length) return;
    for (const entry of entries) if (entry.role === "user") this.match(queue, entry);
    this.events.changed();
  }

  private match(queue: OutgoingMessage[], entry: Entry): void {
    const exact = queue.find((one) => one.event !== undefined && one.event === entry.event);
    if (exact) return this.drop(queue, exact);
    // The stream may be faster than the answer. Until the answer names the event, an entry with this text counts as it.
    const may = (one: OutgoingMessage) => one.event === undefined && one.adopted === undefined && one.text === entry.text;
    const open = queue.find((one) => may(one) && entry.born > (one.rev ?? 0));
    if (open) open.adopted = entry.event;
  }

  /** Called after the answer. Removes the message if its entry is in the view already (`shown`). */
  settle(key: string, message: OutgoingMessage, shown: boolean): void {
    message.adopted = undefined;
    if (!shown) return;
    this.drop(this.queue(key), message);
    this.events.changed();
  }

  private drop(queue: OutgoingMessage[], message: OutgoingMessage): void {
    const place = queue.indexOf(message);
    if (place >= 0) queue.splice(place, 1);
  }
}

/** Whether an HTTP server says that the request broke off on its way: the gateway itself refuses with a code. */
function brokeOff(error: unknown): boolean {
  return error instanceof Problem && !error.code && (error.status === 400 || error.status === 408);
}
