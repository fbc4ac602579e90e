// The list of sessions: what is new in each, and which needs somebody. It comes as a stream while somebody looks at the
// page; of a hidden tab, it is asked for now and then, because a browser has six connections for all its tabs.

import { computed, signal } from "@preact/signals";
import { ask, at, statusOf } from "./api.ts";
import { keep, kept } from "./kept.ts";
import { LIST_STREAM, Watch } from "./stream.ts";
import type { ListFrame, ListedSession } from "./wire.ts";

const POLL_MS = 10000;
const HIDDEN_POLL_MS = 30000;
const REST_MS = 60000; // after this time, a hidden tab lets its connection go
const STREAMED = 200; // sessions that the stream tells of
const MAX_LISTED = 1000; // the API's limit for one request; search finds older sessions

/** How many requests, questions and held parts of a session wait for a person; a failed turn counts as one. */
export const needsOf = ({ approvals = 0, questions = 0, held = 0, failed }: ListedSession): number =>
  approvals + questions + held + (failed ? 1 : 0);

interface Fetched {
  rows: ReadonlyMap<string, ListedSession>;
  /** Whether the gateway has more of them. */
  more: boolean;
}

const NONE: Fetched = { rows: new Map(), more: false };

export class SessionList {
  /** Whether the archived sessions are listed instead. */
  readonly archived = signal(false);
  private readonly current = signal(NONE); // those that are not archived
  private readonly old = signal(NONE);
  private readonly shown = computed(() => (this.archived.value ? this.old : this.current).value);
  /** Whether the list that is shown was fetched: if not, it is not known to be empty. */
  readonly isFetched = computed(() => this.shown.value !== NONE);
  readonly rows = computed(() => this.shown.value.rows);
  readonly more = computed(() => this.shown.value.more && this.limit < MAX_LISTED);
  /** The sessions, the newest first. */
  readonly sorted = computed(() => newestFirst(this.shown.value));
  /** The keys of the sessions that stand above the others. They are kept in this browser. */
  readonly pinned = signal<readonly string[]>(kept("pins", []));
  /** The sessions in the order of the list: the pinned ones first. */
  readonly listed = computed(() => {
    const isPinned = ({ key }: ListedSession): boolean => this.pinned.value.includes(key);
    return [...this.sorted.value.filter(isPinned), ...this.sorted.value.filter((one) => !isPinned(one))];
  });
  /** Those that need somebody, the newest first; none of the archived ones. */
  readonly needy = computed(() => newestFirst(this.current.value).filter((one) => !one.archived && needsOf(one) > 0));
  /** How many things need somebody, in all of them. */
  readonly needed = computed(() => this.needy.value.reduce((sum, one) => sum + needsOf(one), 0));
  private rev: number | null = null;
  private limit = STREAMED;
  private watch: Watch<ListFrame> | undefined;
  private soonTimer: ReturnType<typeof setTimeout> | undefined;
  private restTimer: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    document.addEventListener("visibilitychange", () => this.rest());
    addEventListener("storage", ({ key }) => key === "semel.pins" && (this.pinned.value = kept("pins", []))); // in another tab
    setInterval(() => !this.isStreaming() && !document.hidden && this.refresh(), POLL_MS);
    setInterval(() => document.hidden && !this.isStreaming() && this.refresh(), HIDDEN_POLL_MS);
  }

  /** Whether what is listed comes as a stream. */
  private isStreaming(): boolean {
    return this.isCurrentStreaming() && !this.archived.peek();
  }

  private isCurrentStreaming(): boolean {
    return Boolean(this.watch?.source) && this.limit === STREAMED;
  }

  /** Fetches the list, and watches it from then on. Does nothing if it cannot be had: the line's state is shown elsewhere. */
  async refresh(): Promise<void> {
    clearTimeout(this.soonTimer);
    this.soonTimer = undefined;
    const archived = this.archived.peek();
    const wanted = [...(archived ? [true] : []), ...(archived && this.isCurrentStreaming() ? [] : [false])];
    try {
      await Promise.all(wanted.map((old) => this.fetch(old)));
    } catch {
      return;
    }
    void this.fetchPinned();
    if (!document.hidden) this.stream();
  }

  private async fetch(archived: boolean): Promise<void> {
    const path = `/v1/sessions?limit=${this.limit}${archived ? "&archived=1" : ""}`;
    const { sessions, more } = await ask<{ sessions: ListedSession[]; more: boolean }>("GET", path);
    (archived ? this.old : this.current).value = { rows: byKey(sessions), more };
  }

  /** Puts a session above the others, or back among them. */
  pin(key: string, yes: boolean): void {
    const others = kept<string[]>("pins", []).filter((one) => one !== key);
    this.pinned.value = yes ? [...others, key] : others;
    keep("pins", [...this.pinned.peek()]);
  }

  /** Fetches the pinned sessions that are not among the newest ones. One that was deleted is pinned no more. */
  private async fetchPinned(): Promise<void> {
    for (const key of this.pinned.peek()) {
      if (this.current.peek().rows.has(key)) continue;
      try {
        const session = await ask<ListedSession>("GET", at(key));
        const { rows, more } = this.current.peek();
        if (!session.archived) this.current.value = { rows: new Map([[key, session], ...rows]), more };
      } catch (error) {
        if (statusOf(error) === 404) this.pin(key, false);
      }
    }
  }

  private stream(): void {
    if (this.watch) return this.watch.wake();
    this.watch = new Watch<ListFrame>(LIST_STREAM, { tell: (frame) => this.take(frame), link: () => {}, rev: () => this.rev });
  }

  private take(frame: ListFrame): void {
    this.rev = frame.rev;
    if (!this.isCurrentStreaming()) return;
    if (frame.type === "snapshot") {
      this.current.value = { rows: byKey(frame.sessions), more: frame.more };
      return void this.fetchPinned();
    }
    const rows = new Map(this.current.peek().rows);
    for (const change of frame.changes) {
      if (change.op === "gone" || change.archived) rows.delete(change.key);
      else rows.set(change.key, change);
    }
    this.current.value = { rows, more: this.current.peek().more };
  }

  /** Fetches the list in 300 ms, unless it comes by itself. Several calls make one request. */
  soon(): void {
    if (!this.isStreaming()) this.soonTimer ??= setTimeout(() => this.refresh(), 300);
  }

  private rest(): void {
    clearTimeout(this.restTimer);
    if (document.hidden) this.restTimer = setTimeout(() => this.watch?.sleep(), REST_MS);
    else if (!this.isStreaming()) void this.refresh();
  }

  showMore(): void {
    this.limit = Math.min(MAX_LISTED, this.limit * 2);
    void this.refresh();
  }

  toggleArchived(): void {
    this.archived.value = !this.archived.peek();
    if (!this.isStreaming()) void this.refresh();
  }
}

const byKey = (sessions: readonly ListedSession[]) => new Map(sessions.map((one) => [one.key, one]));
const newestFirst = ({ rows }: Fetched): ListedSession[] => [...rows.values()].sort((a, b) => b.at - a.at);
