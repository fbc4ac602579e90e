// Watches one session: frames in order, resumed by rev after every break of the connection (Law 8).

import { ask, at } from "/page/api.js";

const PAUSES = [500, 1000, 2000, 4000, 8000];
const EVERY = 15000; // in ms: between two pings, until one of them says how long
const OVERDUE = 2.5; // of that time: then the connection is dead, even if the browser does not know it

export class Watch {
  /**
   * tell(frame) is called for each snapshot or change; link("live" | "lost" | "gone" | "new") when the state of the
   * connection changes. rev() returns the rev to resume after. "gone" and "new" mean that the session does not exist
   * (any more, or yet): then nothing is watched until `hurry` is called.
   */
  constructor(key, { tell, link, rev }) {
    this.key = key;
    this.tell = tell;
    this.link = link;
    this.rev = rev;
    this.failures = 0;
    this.every = EVERY;
    this.heard = Date.now();
    this.hurry = () => this.source === null && this.open();
    this.look = () => this.source && Date.now() - this.heard > OVERDUE * this.every && this.reopen();
    addEventListener("online", this.hurry);
    addEventListener("pageshow", this.look);
    document.addEventListener("visibilitychange", this.look); // timers of a tab that slept come late
    this.looking = setInterval(this.look, 1000);
    this.open();
  }

  open() {
    clearTimeout(this.timer);
    const after = this.rev() === null ? "" : `&after=${this.rev()}`;
    const source = new EventSource(at(this.key, `/stream?html=1&ping=1${after}`));
    this.source = source;
    this.heard = Date.now();
    const take = (event) => {
      this.failures = 0;
      this.heard = Date.now();
      this.tell(JSON.parse(event.data));
    };
    source.addEventListener("snapshot", take);
    source.addEventListener("change", take);
    source.addEventListener("ping", (event) => {
      this.every = JSON.parse(event.data).every_ms;
      this.heard = Date.now();
      this.link("live");
    });
    source.addEventListener("error", () => this.lost(source));
  }

  // The browser reconnects by itself, with the last id that it saw, unless the gateway refused it: then we reconnect.
  lost(source) {
    if (this.source !== source) return;
    this.link("lost");
    if (source.readyState !== EventSource.CLOSED) return;
    this.source = null;
    this.timer = setTimeout(() => this.again(), PAUSES[Math.min(this.failures++, PAUSES.length - 1)]);
  }

  /** Replaces a connection on which nothing comes any more. */
  reopen() {
    this.link("lost");
    this.source.close();
    this.open();
  }

  async again() {
    try {
      await ask("GET", at(this.key, `/entries?after=${Number.MAX_SAFE_INTEGER}&limit=1`));
    } catch (error) {
      if (error.status === 404) return this.link(this.rev() === null ? "new" : "gone");
    }
    if (this.source === null && !this.closed) this.open();
  }

  /** Closes the connection. `wake` opens it again and resumes after the view's rev. */
  sleep() {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = undefined;
    this.asleep = true;
  }

  wake() {
    if (!this.asleep) return;
    this.asleep = false;
    this.open();
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    clearInterval(this.looking);
    removeEventListener("online", this.hurry);
    removeEventListener("pageshow", this.look);
    document.removeEventListener("visibilitychange", this.look);
    this.source?.close();
    this.source = undefined;
  }
}
