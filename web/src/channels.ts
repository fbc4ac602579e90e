// A status line that names the channels that are offline or were refused by their platform.

import { signal } from "@preact/signals";
import { ask } from "./api.ts";
import { byId, clock, say, show } from "./dom.ts";
import type { ChannelState } from "./wire.ts";
import { t } from "./texts.ts";

const EVERY = 30000;
type Told = Readonly<Record<"name" | "when", string>>;
const SILENT: Record<string, (told: Told) => string> = {
  offline: (told) => t("{name} is offline since {when}", told),
  denied: (told) => t("{name} was refused by its platform since {when}", told),
};

export class Channels {
  /** Whether a channel is configured. */
  readonly any = signal(false);
  private node = byId("channels");
  private none = false; // no channel is configured, and only a restart of the gateway changes that

  constructor() {
    setInterval(() => document.visibilityState === "visible" && this.refresh(), EVERY);
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && this.refresh());
  }

  async refresh(): Promise<void> {
    if (this.none) return;
    let found: ChannelState[];
    try {
      found = (await ask<{ channels: ChannelState[] }>("GET", "/v1/channels")).channels;
    } catch {
      return; // the connection's state is shown elsewhere
    }
    this.none = found.length === 0;
    this.any.value = !this.none;
    show(byId("people-button"), !this.none);
    const silent = found.filter((one) => SILENT[one.state]);
    say(this.node, silent.map((one) => SILENT[one.state]!({ name: one.name, when: clock(one.since) })).join("\n"));
    this.node.title = silent.map((one) => `${one.name}: ${one.error || ""}`).join("\n");
    show(this.node, silent.length > 0);
  }
}
