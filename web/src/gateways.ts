// The gateways of a cluster: a line for what is wrong with them, and a dialog that lists them.

import { ask, messageOf } from "./api.ts";
import { byId, clock, dialogById, h, plainly, say, selectionTouches, show } from "./dom.ts";
import type { GatewayRow, MissingGateway } from "./wire.ts";
import { t } from "./texts.ts";

interface Found {
  gateways: GatewayRow[];
  missing_gateways: MissingGateway[];
}

const EVERY = 15000;
const EVERY_OPEN = 3000; // in ms: while the dialog is open
const SILENT_AFTER = 5; // in s: a gateway that is well shows life every two seconds
const GIVEN_UP_AFTER = 10; // in s: see docs/postgres.md

export class Gateways {
  private dialog = dialogById("gateways");
  private drawn = new Map<string, string>();
  private none = false; // only a restart of the gateway makes it one of a cluster
  private timer: ReturnType<typeof setInterval> | undefined;

  constructor() {
    byId("gateways-button").addEventListener("click", () => this.open());
    this.dialog.addEventListener("close", () => this.repeat(EVERY));
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && this.refresh());
    this.repeat(EVERY);
  }

  private repeat(every: number): void {
    clearInterval(this.timer);
    this.timer = setInterval(() => document.visibilityState === "visible" && this.refresh(), every);
  }

  private open(): void {
    this.dialog.showModal();
    this.repeat(EVERY_OPEN);
    void this.refresh();
  }

  async refresh(): Promise<void> {
    if (this.none) return;
    let found: Found;
    try {
      found = await ask("GET", "/v1/gateways");
      say(byId("gateways-wrong"), "");
    } catch (error) {
      say(byId("gateways-wrong"), messageOf(error));
      return;
    }
    this.none = found.gateways.length === 0;
    show(byId("gateways-button"), !this.none);
    const silent = found.gateways.filter((one) => one.silent_s > SILENT_AFTER);
    const gone = found.missing_gateways.map((one) => t("{sessions} for {gateway}, which is gone", { sessions: waits(one.sessions), gateway: plainly(one.gateway) }));
    say(byId("gateways-told"), [...silent.map((one) => t("{name} is silent since {when}", { name: plainly(one.name), when: clock(one.seen) })), ...gone].join("\n"));
    show(byId("gateways-told"), silent.length + gone.length > 0);
    if (this.dialog.open) this.draw(found);
  }

  private draw({ gateways, missing_gateways: missing }: Found): void {
    const shown = gateways.map((one) => ({ ...one, seen: 0, silent_s: one.silent_s > SILENT_AFTER && one.silent_s }));
    this.list("gateways-living", shown, () => gateways.map((one) => row(one, gateways)));
    this.list("gateways-missing", missing, () => missing.map(missingRow));
    show(byId("gateways-gone"), missing.length > 0);
  }

  /** Redraws a list if its data changed, but not while text in it is selected. */
  private list(id: string, data: unknown, make: () => Node[]): void {
    const told = JSON.stringify(data);
    if (this.drawn.get(id) === told || selectionTouches(byId(id))) return;
    this.drawn.set(id, told);
    byId(id).replaceChildren(...make());
  }
}

function row(gateway: GatewayRow, gateways: GatewayRow[]): Node {
  const { name, address, host, version, joined, is_active: active, serves, agents, room } = gateway;
  const silent = gateway.silent_s > SILENT_AFTER;
  const does = active ? t("active") : serves ? t("serves, too") : t("waits to take over");
  const runs = serves ? t("{count} of {all} agents run", { count: agents, all: room }) : "";
  return h("li", { "data-state": silent ? "offline" : "online" },
    h("p", {},
      h("span", { class: "dot", "data-state": silent ? "offline" : serves ? "online" : "waiting" }),
      h("bdi", { class: "name" }, plainly(name)),
      h("small", {}, [does, runs].filter(Boolean).join(" · "))),
    h("p", {},
      h("bdi", { class: "account", title: plainly(address ?? host) }, plainly(address ?? host)),
      h("small", {}, t("Semel {version} · since {when}", { version: plainly(version), when: clock(joined) }))),
    silent ? h("p", { class: "why" }, silence(gateway, gateways)) : null);
}

/** Since when a gateway is silent, and what follows, as `semel status` says it. */
function silence(gateway: GatewayRow, gateways: GatewayRow[]): string {
  const left = Math.max(1, Math.round(GIVEN_UP_AFTER - gateway.silent_s));
  const others = gateways.filter((one) => one !== gateway && one.silent_s <= SILENT_AFTER).map((one) => plainly(one.name));
  const who = others.length === 1 ? others[0]! : t("one of {names}", { names: others.join(", ") });
  const taken = gateway.is_active
    ? t("Unless it goes on, {who} takes over in {count} s.", { who, count: left })
    : t("Unless it goes on, it is given up in {count} s.", { count: left });
  const step = others.length ? taken : t("No other gateway lives that could take over.");
  const since = { when: clock(gateway.seen), count: Math.round(gateway.silent_s), step };
  return t("Silent since {when} ({count} s): it hangs, or is cut off. {step}", since);
}

function missingRow({ gateway, sessions, newest }: MissingGateway): Node {
  const link = (key: string) => h("a", { href: `#/s/${encodeURIComponent(key)}`, onclick: () => dialogById("gateways").close() }, h("bdi", {}, plainly(key)));
  const more = sessions > newest.length ? h("small", {}, t("and {count} more", { count: sessions - newest.length })) : null;
  return h("li", {},
    h("p", {}, h("span", { class: "dot", "data-state": "denied" }), h("bdi", { class: "name" }, plainly(gateway)), h("small", {}, t("{sessions} for it", { sessions: waits(sessions) }))),
    h("p", { class: "links" }, ...newest.map(link), more),
    h("p", { class: "soft" }, t("On its machine, their agents have memory and workspace. They go on once it is back; /new in one of them begins anew at another gateway.")));
}

const waits = (sessions: number): string => (sessions === 1 ? t("1 session waits") : t("{count} sessions wait", { count: sessions }));
