// The gateways of a cluster: a line for what is wrong with them, and the button of the dialog that lists them.

import { signal } from "@preact/signals";
import { ask, messageOf } from "./api.ts";
import { byId, clock, plainly, say, show } from "./dom.ts";
import { withLater } from "./on_demand.ts";
import type { GatewayRow, MissingGateway } from "./wire.ts";
import { t } from "./texts.ts";

export interface FoundGateways {
  gateways: GatewayRow[];
  missing_gateways: MissingGateway[];
}

const EVERY = 15000;
const EVERY_OPEN = 3000; // in ms: while the dialog is open
const SILENT_AFTER = 5; // in s: a gateway that is well shows life every two seconds

export class Gateways {
  private found = signal<FoundGateways>({ gateways: [], missing_gateways: [] });
  private wrong = signal(""); // why they cannot be told
  private none = false; // only a restart of the gateway makes it one of a cluster
  private timer: ReturnType<typeof setInterval> | undefined;
  private changed: () => void;

  /** `changed` is called each time the gateways were asked for. */
  constructor(changed: () => void) {
    this.changed = changed;
    byId("gateways-button").addEventListener("click", () => this.open());
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && this.refresh());
    this.repeat(EVERY);
  }

  private repeat(every: number): void {
    clearInterval(this.timer);
    this.timer = setInterval(() => document.visibilityState === "visible" && this.refresh(), every);
  }

  private open(): void {
    void withLater(({ openGateways }) => {
      openGateways(this.found, this.wrong).addEventListener("close", () => this.repeat(EVERY));
      this.repeat(EVERY_OPEN);
      void this.refresh();
    });
  }

  async refresh(): Promise<void> {
    if (this.none) return;
    try {
      this.found.value = await ask<FoundGateways>("GET", "/v1/gateways");
      this.wrong.value = "";
    } catch (error) {
      this.wrong.value = messageOf(error);
      return;
    }
    const { gateways, missing_gateways: missing } = this.found.peek();
    this.none = gateways.length === 0;
    show(byId("gateways-button"), !this.none);
    const silent = gateways.filter(isSilent).map(describeSilence);
    const gone = missing.map((one) => t("{sessions} for {gateway}, which is gone", { sessions: waits(one.sessions), gateway: plainly(one.gateway) }));
    say(byId("gateways-told"), [...silent, ...gone].join("\n"));
    show(byId("gateways-told"), silent.length + gone.length > 0);
    this.changed();
  }

  /** Why the sessions of this gateway do not go on, in words; "" if it is well. */
  describeTrouble(gateway: string | undefined): string {
    const { gateways, missing_gateways: missing } = this.found.peek();
    const silent = gateways.find((one) => one.name === gateway && isSilent(one));
    if (silent) return describeSilence(silent);
    return missing.some((one) => one.gateway === gateway) ? t("{gateway} is gone: start it", { gateway: plainly(gateway!) }) : "";
  }
}

const describeSilence = ({ name, seen }: GatewayRow): string => t("{name} is silent since {when}", { name: plainly(name), when: clock(seen) });

export const isSilent = ({ silent_s: seconds }: GatewayRow): boolean => seconds > SILENT_AFTER;

/** How many sessions wait, in words. */
export const waits = (sessions: number): string => (sessions === 1 ? t("1 session waits") : t("{count} sessions wait", { count: sessions }));
