// The dialog "People and channels": the state of each channel, who may talk, who was refused, and pairing codes.

import { ask, messageOf } from "./api.ts";
import type { ChannelState, PairingCode, Person, Stranger } from "./wire.ts";
import { ago, byId, clock, dialogById, h, plainly, say, selectionTouches, show } from "./dom.ts";
import { Pairing } from "./pairing.ts";
import { t } from "./texts.ts";

const EVERY = 4000;
const STATES: Record<string, string> = { starting: t("starting"), online: t("online"), offline: t("offline"), denied: t("refused by its platform") };
const ORIGINS: Record<string, string> = { config: t("in semel.toml"), added: t("added"), paired: t("by a code") };

const NOBODY = t("Nobody yet. Make a code below, and send it to the gateway's account from yours.");
const NOBODY_CAN = t("Nobody: people have no accounts on these channels. Whoever has a webhook's secret may write.");

interface Met {
  strangers: Stranger[];
  codes: PairingCode[];
}

let dialog: People | undefined;

/** Opens the dialog. */
export function openPeople(): void {
  dialog ??= new People();
  void dialog.open();
}

class People {
  private dialog = dialogById("people");
  private drawn = new Map<string, string>();
  private pairing = new Pairing((error) => this.wrong(error), () => this.refresh());
  private channels: ChannelState[] = [];
  private people: Person[] = [];
  private met: Met = { strangers: [], codes: [] };
  private asked: string | null = null; // the account whose removal was asked for, and not confirmed yet
  private lost = false;
  private timer: ReturnType<typeof setInterval> | undefined;

  constructor() {
    this.dialog.addEventListener("close", () => {
      clearInterval(this.timer);
      this.pairing.forget();
    });
  }

  async open(): Promise<void> {
    this.asked = null;
    this.wrong(null);
    say(byId("people-told"), "");
    this.dialog.showModal();
    byId("people-body").scrollTop = 0;
    this.timer = setInterval(() => document.visibilityState === "visible" && this.refresh(), EVERY);
    await this.refresh();
  }

  private async refresh(): Promise<void> {
    try {
      const [{ channels }, { people }, met] = await Promise.all([
        ask<{ channels: ChannelState[] }>("GET", "/v1/channels"),
        ask<{ people: Person[] }>("GET", "/v1/people"),
        ask<Met>("GET", "/v1/people/strangers"),
      ]);
      Object.assign(this, { channels, people, met });
    } catch (error) {
      return this.wrong(error, true);
    }
    if (this.lost) this.wrong(null);
    this.draw();
  }

  /** Shows an error; null removes it. `lost`: a refresh failed, and the next one that succeeds removes the error. */
  private wrong(error: unknown, lost = false): void {
    this.lost = lost;
    say(byId("people-wrong"), error ? messageOf(error) : "");
  }

  private async act<T>(method: string, path: string, body: unknown, told: (answer: T) => string): Promise<void> {
    this.asked = null;
    try {
      const answer = await ask<T>(method, path, body);
      this.wrong(null);
      say(byId("people-told"), told(answer));
    } catch (error) {
      this.wrong(error);
    }
    await this.refresh();
  }

  private draw(): void {
    const { channels, people, met } = this;
    this.list("people-channels", channels, () => channels.map(channelRow));
    this.list("people-known", [people, this.asked], () => people.map((one) => this.person(one)));
    const paired = channels.filter((one) => one.people !== false);
    show(byId("people-none"), people.length === 0);
    say(byId("people-none"), paired.length ? NOBODY : NOBODY_CAN);
    const latest = met.strangers.map((one) => ({ ...one, ago: ago(one.last) }));
    this.list("people-strangers", latest, () => latest.map((one) => this.stranger(one)));
    say(byId("people-quiet"), latest.length ? t("They got no answer, and their messages were not kept.") : t("Nobody, since the gateway started."));
    this.pairing.draw(paired, people, met.codes);
  }

  /** Redraws a list if its data changed, but not while text in it is selected. The focus stays at its place. */
  private list(id: string, data: unknown, make: () => Node[]): void {
    const node = byId(id);
    const told = JSON.stringify(data);
    if (this.drawn.get(id) === told || selectionTouches(node)) return;
    this.drawn.set(id, told);
    const held = node.contains(document.activeElement) ? (document.activeElement as HTMLElement).dataset.at ?? "" : null;
    node.replaceChildren(...make());
    if (held === null) return;
    const again = node.querySelector<HTMLElement>(`[data-at="${CSS.escape(held)}"]`) ?? node.querySelector("button");
    (again ?? byId("people-title")).focus();
  }

  private person({ name, role, accounts }: Person): Node {
    const title = h("p", {}, h("bdi", { class: "name" }, plainly(name)), h("small", {}, role));
    const rows = accounts.map((one) => this.account(name, one));
    return h("li", {}, title, rows.length ? h("ul", {}, ...rows) : h("p", { class: "soft" }, t("no account yet: make a code")));
  }

  private account(name: string, { account, origin }: Person["accounts"][number]): Node {
    const shown = h("bdi", { class: "account", title: plainly(account) }, plainly(account));
    const from = h("small", {}, ORIGINS[origin] ?? origin);
    if (origin === "config") return h("li", {}, shown, from);
    if (this.asked !== account) return h("li", {}, shown, from, button(t("Remove"), account, () => this.ask(account), t("Remove {account} of {name}", { account, name })));
    return h("li", { class: "asked" }, shown,
      h("span", { class: "sure" }, t("Remove it? Its messages are then refused."),
        button(t("Keep"), account, () => this.ask(null)),
        button(t("Remove"), `${account} sure`, () => this.remove(account), t("Yes, remove {account}", { account }), "danger")));
  }

  private ask(account: string | null): void {
    this.asked = account;
    this.draw();
  }

  private remove(account: string): Promise<void> {
    return this.act("DELETE", `/v1/people/${encodeURIComponent(account)}`, undefined, () => t("{account} is a stranger's account now.", { account: plainly(account) }));
  }

  private stranger({ account, name, times, ago: last }: Stranger & { ago: string }): Node {
    const often = howOften(times, last);
    const letIn = (role: string) => () => this.act<Person>("POST", "/v1/people", { account, role }, (who) => t("{account} is {name} ({role}) now.", { account: plainly(account), name: plainly(who.name), role: who.role }));
    const what = (role: string) => t("Let {account} in as {role}", { account, role });
    return h("li", {},
      h("p", {}, h("bdi", { class: "name" }, plainly(name) || t("no name")), h("bdi", { class: "account", title: plainly(account) }, plainly(account)), h("small", {}, often)),
      h("p", { class: "options" },
        button(t("Let in as member"), `${account} member`, letIn("member"), what("member")),
        button(t("as guest"), `${account} guest`, letIn("guest"), what("guest"))));
  }
}

/** How often somebody wrote, and when last: `ago` of that time. */
function howOften(count: number, when: string): string {
  if (when === t("now")) return count === 1 ? t("once, just now") : t("{count} times, just now", { count });
  if (!/min$/.test(when)) return count === 1 ? t("once, last {when}", { when }) : t("{count} times, last {when}", { count, when });
  return count === 1 ? t("once, last {when} ago", { when }) : t("{count} times, last {when} ago", { count, when });
}

function button(text: string, at: string, act: () => unknown, label?: string, kind = ""): Node {
  return h("button", { type: "button", class: `tiny ${kind}`.trim(), "data-at": at, "aria-label": label && plainly(label), onclick: act }, text);
}

function channelRow({ name, kind, state, since, error, retry_at: again, counts, refused }: ChannelState): Node {
  const silent = state === "offline" || state === "denied";
  const often = Object.values(refused).reduce((sum, one) => sum + one, 0);
  const told = [
    t("{count} heard", { count: counts.accepted }),
    often ? t("{count} refused", { count: often }) : "",
    counts.quarantined ? t("{count} quarantined", { count: counts.quarantined }) : "",
  ];
  return h("li", { "data-state": state },
    h("p", {},
      h("span", { class: "dot", "data-state": state }),
      h("span", { class: "name" }, name),
      h("small", {}, [kind === name ? "" : kind, t("{state} since {when}", { state: STATES[state] ?? state, when: clock(since) }), ...told].filter(Boolean).join(" · "))),
    silent && error ? h("p", { class: "why" }, plainly(error) + (again ? ` ${t("It is tried again at {when}.", { when: clock(again) })}` : "")) : null);
}
