// The dialog that lists the gateways of a cluster. It is loaded when it is opened for the first time.

import type { Signal } from "@preact/signals";
import { Lists, openLists } from "./dialog.tsx";
import { clock, plainly } from "./text.ts";
import { type FoundGateways, isSilent, waits } from "./gateways.ts";
import { t } from "./texts.ts";
import type { GatewayRow, MissingGateway } from "./wire.ts";

const GIVEN_UP_AFTER = 10; // in s: see docs/postgres.md

/** Opens the dialog. It shows what `found` has, and in its foot what is wrong. */
export const openGateways = (found: Signal<FoundGateways>, wrong: Signal<string>): HTMLDialogElement =>
  openLists("gateways", (close) => <GatewaysView found={found} wrong={wrong} close={close} />);

function GatewaysView({ found, wrong, close }: { found: Signal<FoundGateways>; wrong: Signal<string>; close: () => void }) {
  const { gateways, missing_gateways: missing } = found.value;
  return (
    <Lists id="gateways" title={t("Gateways")} close={close} foot={<p id="gateways-wrong" class="wrong" role="alert">{wrong.value}</p>}>
      <section aria-label={t("Gateways that live")}>
        <ul id="gateways-living">{gateways.map((one) => <LivingRow key={one.name} gateway={one} gateways={gateways} />)}</ul>
        <p class="soft">{t("The active one has the channels, the schedules and the outbox. All of them may be asked.")}</p>
      </section>
      <section id="gateways-gone" aria-labelledby="gateways-2" hidden={!missing.length}>
        <h3 id="gateways-2">{t("Gone, and waited for")}</h3>
        <ul id="gateways-missing">{missing.map((one) => <MissingRow key={one.gateway} missing={one} close={close} />)}</ul>
      </section>
    </Lists>
  );
}

function LivingRow({ gateway, gateways }: { gateway: GatewayRow; gateways: GatewayRow[] }) {
  const { name, address, host, version, joined, is_active: active, serves, agents, room } = gateway;
  const silent = isSilent(gateway);
  const does = active ? t("active") : serves ? t("serves, too") : t("waits to take over");
  const runs = serves ? t("{count} of {all} agents run", { count: agents, all: room }) : "";
  return (
    <li data-state={silent ? "offline" : "online"}>
      <p>
        <span class="dot" data-state={silent ? "offline" : serves ? "online" : "waiting"} />
        <bdi class="name">{plainly(name)}</bdi>
        <small>{[does, runs].filter(Boolean).join(" · ")}</small>
      </p>
      <p>
        <bdi class="account" title={plainly(address ?? host)}>{plainly(address ?? host)}</bdi>
        <small>{t("Semel {version} · since {when}", { version: plainly(version), when: clock(joined) })}</small>
      </p>
      {silent ? <p class="why">{silence(gateway, gateways)}</p> : null}
    </li>
  );
}

/** Since when a gateway is silent, and what follows, as `semel status` says it. */
function silence(gateway: GatewayRow, gateways: GatewayRow[]): string {
  const left = Math.max(1, Math.round(GIVEN_UP_AFTER - gateway.silent_s));
  const others = gateways.filter((one) => one !== gateway && !isSilent(one)).map((one) => plainly(one.name));
  const who = others.length === 1 ? others[0]! : t("one of {names}", { names: others.join(", ") });
  const taken = gateway.is_active
    ? t("Unless it goes on, {who} takes over in {count} s.", { who, count: left })
    : t("Unless it goes on, it is given up in {count} s.", { count: left });
  const step = others.length ? taken : t("No other gateway lives that could take over.");
  const since = { when: clock(gateway.seen), count: Math.round(gateway.silent_s), step };
  return t("Silent since {when} ({count} s): it hangs, or is cut off. {step}", since);
}

function MissingRow({ missing: { gateway, sessions, newest }, close }: { missing: MissingGateway; close: () => void }) {
  return (
    <li>
      <p><span class="dot" data-state="denied" /><bdi class="name">{plainly(gateway)}</bdi><small>{t("{sessions} for it", { sessions: waits(sessions) })}</small></p>
      <p class="links">
        {newest.map((key) => <a key={key} href={`#/s/${encodeURIComponent(key)}`} onClick={close}><bdi>{plainly(key)}</bdi></a>)}
        {sessions > newest.length ? <small>{t("and {count} more", { count: sessions - newest.length })}</small> : null}
      </p>
      <p class="soft">{t("On its machine, their agents have memory and workspace. They go on once it is back; /new in one of them begins anew at another gateway.")}</p>
    </li>
  );
}
