// Watches one session, or the list of all: frames in order, resumed by rev after every break of the connection (Law 8).

import { ask, at, statusOf } from "./api.ts";
import type { Frame } from "./wire.ts";

export type LinkState = "live" | "lost" | "gone" | "new";

export interface Watcher<F extends { rev: number }> {
  /** Called for each snapshot or change. */
  tell: (frame: F) => void;
  /** Called when the state of the connection changes. "gone", "new": the session does not exist (any more, or yet). */
  link: (state: LinkState) => void;
  /** The rev to resume after; null before the first snapshot. */
  rev: () => number | null;
}

const PAUSES_MS = [500, 1000, 2000, 4000, 8000];
const FIRST_FRAME_TIMEOUT_MS = 40000; // until the first frame is there: over a slow line, a long one takes its time
const PROBE_INTERVAL_MS = 6000; // on a line that is lost, the gateway is asked this often whether it can be reached
const PROBE_TIMEOUT_MS = 4000; // without an answer by then it cannot
const MAX_SILENT_PING_INTERVALS = 2.5; // after them the connection is dead, even if the browser does not know it

/** A time that is up to a quarter shorter, so that the pages of many people do not come at once. */
const spread = (ms: number): number => ms * (1 - Math.random() / 4);

/** What is watched: the path of its stream, and one of which a 404 says that it does not exist. */
export interface Watched {
  stream: string;
  probe: string;
}

export const sessionStream = (key: string): Watched => ({
  stream: at(key, "/stream"),
  probe: at(key, `/entries?after=${Number.MAX_SAFE_INTEGER}&limit=1`),
});
export const LIST_STREAM: Watched = { stream: "/v1/stream", probe: "/v1/sessions?limit=1" };

/** A connection to a stream. If what is watched does not exist, nothing is watched until `hurry`. */
export class Watch<F extends { rev: number } = Frame> {
  /** null: there is none, and `hurry` opens one. undefined: it was closed on purpose. */
  source: EventSource | null | undefined = null;
  private watched: Watched;
  private watcher: Watcher<F>;
  private failures = 0;
  private maxSilenceMs = FIRST_FRAME_TIMEOUT_MS; // for how long nothing may come before the line counts as lost
  private hasBegun = false; // whether this connection has brought a frame
  private heard = Date.now();
  private nextProbe: number | null = null; // on a line that is lost: when the gateway is asked next
  private asleep = false;
  private closed = false;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private looking: ReturnType<typeof setInterval>;

  constructor(watched: Watched, watcher: Watcher<F>) {
    this.watched = watched;
    this.watcher = watcher;
    addEventListener("online", this.hurry);
    for (const name of ["online", "pageshow", "focus"]) addEventListener(name, this.probeNow);
    document.addEventListener("visibilitychange", this.probeNow); // timers of a tab that slept come late
    this.looking = setInterval(this.look, 1000);
    this.open();
  }

  hurry = (): void => {
    if (this.source === null) this.open();
  };

  look = (): void => {
    if (!this.source) return;
    const silence = Date.now() - this.heard;
    if (silence > (this.hasBegun ? this.maxSilenceMs : Math.max(this.maxSilenceMs, FIRST_FRAME_TIMEOUT_MS))) return this.reopen();
    if (silence > this.maxSilenceMs) this.watcher.link("lost"); // or its first frame is on its way
    if (this.nextProbe !== null && Date.now() >= this.nextProbe) void this.probe();
  };

  private probeNow = (): void => {
    if (this.nextProbe !== null) this.nextProbe = 0;
    this.look();
  };

  open(): void {
    clearTimeout(this.timer);
    const rev = this.watcher.rev();
    const source = new EventSource(`${this.watched.stream}?ping=1${rev === null ? "" : `&after=${rev}`}`);
    this.source = source;
    this.heard = Date.now();
    this.hasBegun = false;
    const take = (event: MessageEvent): void => {
      this.failures = 0;
      this.hasBegun = true;
      this.noteLife();
      this.watcher.tell(JSON.parse(event.data));
    };
    source.addEventListener("snapshot", take);
    source.addEventListener("change", take);
    source.addEventListener("ping", (event) => {
      this.maxSilenceMs = MAX_SILENT_PING_INTERVALS * JSON.parse(event.data).every_ms;
      this.noteLife();
    });
    source.addEventListener("error", () => this.lost(source));
  }

  // The browser reconnects by itself, with the last id that it saw, unless the gateway refused it: then we reconnect.
  private lost(source: EventSource): void {
    if (this.source !== source) return;
    this.noteLoss();
    if (source.readyState !== EventSource.CLOSED) return;
    this.source = null;
    const pause = PAUSES_MS[Math.min(this.failures++, PAUSES_MS.length - 1)];
    this.timer = setTimeout(() => this.again(), spread(pause!));
  }

  /** Replaces a connection on which nothing comes any more. */
  private reopen(): void {
    this.noteLoss();
    this.source?.close();
    this.open();
  }

  private noteLife(): void {
    this.heard = Date.now();
    this.nextProbe = null;
    this.watcher.link("live");
  }

  private noteLoss(): void {
    this.nextProbe ??= Date.now() + spread(PROBE_INTERVAL_MS);
    this.watcher.link("lost");
  }

  /** Replaces a connection on which nothing has come since the line was lost, if the gateway can be reached without it. */
  private async probe(): Promise<void> {
    const { source } = this;
    this.nextProbe = Date.now() + spread(PROBE_INTERVAL_MS);
    try {
      await ask("GET", this.watched.probe, undefined, PROBE_TIMEOUT_MS);
    } catch (error) {
      if (!statusOf(error)) return;
    }
    if (this.source !== source || this.nextProbe === null) return;
    this.reopen();
    this.nextProbe = null; // the new one has its time, also on a slow line
  }

  private async again(): Promise<void> {
    try {
      await ask("GET", this.watched.probe, undefined, PROBE_TIMEOUT_MS);
    } catch (error) {
      if (statusOf(error) === 404) return this.watcher.link(this.watcher.rev() === null ? "new" : "gone");
    }
    if (this.source === null && !this.closed) this.open();
  }

  /** Closes the connection. `wake` opens it again and resumes after the view's rev. */
  sleep(): void {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = undefined;
    this.asleep = true;
  }

  wake(): void {
    if (!this.asleep) return;
    this.asleep = false;
    this.open();
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.timer);
    clearInterval(this.looking);
    removeEventListener("online", this.hurry);
    for (const name of ["online", "pageshow", "focus"]) removeEventListener(name, this.probeNow);
    document.removeEventListener("visibilitychange", this.probeNow);
    this.source?.close();
    this.source = undefined;
  }
}
