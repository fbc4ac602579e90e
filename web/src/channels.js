// A status line that names the channels that are offline or were refused by their platform.

import { ask } from "./api.ts";
import { byId, clock, say, show } from "./dom.js";

const EVERY = 30000;
const WORDS = { offline: "is offline", denied: "was refused by its platform" };

export class Channels {
  constructor() {
    this.node = byId("channels");
    setInterval(() => document.visibilityState === "visible" && this.refresh(), EVERY);
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && this.refresh());
  }

  async refresh() {
    if (this.none) return; // no channel is configured, and only a restart of the gateway changes that
    let found;
    try {
      found = (await ask("GET", "/v1/channels")).channels;
    } catch {
      return; // the connection's state is shown elsewhere
    }
    this.none = found.length === 0;
    show(byId("people-button"), !this.none);
    const silent = found.filter((one) => WORDS[one.state]);
    say(this.node, silent.map((one) => `${one.name} ${WORDS[one.state]} since ${clock(one.since)}`).join("\n"));
    this.node.title = silent.map((one) => `${one.name}: ${one.error || ""}`).join("\n");
    show(this.node, silent.length > 0);
  }
}
