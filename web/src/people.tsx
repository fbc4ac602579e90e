// The dialog "People and channels": the state of each channel, who may talk, who was refused, and pairing codes.

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { ask, messageOf } from "./api.ts";
import { Lists, openLists } from "./dialog.tsx";
import { Pairing } from "./pairing.tsx";
import { ago, clock, plainly } from "./text.ts";
import { t } from "./texts.ts";
import { usePolled } from "./views/polled.ts";
import { useRefresh } from "./views/refreshed.ts";
import type { ChannelState, PairingCode, Person, Stranger } from "./wire.ts";

const EVERY_MS = 4000;
const STATES: Record<string, string> = { starting: t("starting"), online: t("online"), offline: t("offline"), denied: t("refused by its platform") };
const ORIGINS: Record<string, string> = { config: t("in semel.toml"), added: t("added"), paired: t("by a code") };

const NOBODY = t("Nobody yet. Make a code below, and send it to the gateway's account from yours.");
const NOBODY_CAN = t("Nobody: people have no accounts on these channels. Whoever has a webhook's secret may write.");

interface Met {
  strangers: Stranger[];
  codes: PairingCode[];
}

/** Opens the dialog. */
export function openPeople(): void {
  openLists("people", (close) => <People close={close} />);
}

/** What a button of the dialog asks the gateway for, and what is told once it is done. */
type Act = <T>(method: string, path: string, body: unknown, told: (answer: T) => string) => Promise<void>;

function People({ close }: { close: () => void }) {
  const channels = usePolled<{ channels: ChannelState[] }>("/v1/channels", EVERY_MS);
  const people = usePolled<{ people: Person[] }>("/v1/people", EVERY_MS);
  const met = usePolled<Met>("/v1/people/strangers", EVERY_MS);
  const [told, setTold] = useState("");
  const [wrong, setWrong] = useState("");
  const [, setNow] = useState(0);
  useRefresh(() => setNow(Date.now()), EVERY_MS); // how long ago somebody wrote
  const refresh = () => Promise.all([channels, people, met].map((each) => each.again()));
  const act: Act = async (method, path, body, tell) => {
    try {
      setTold(tell(await ask(method, path, body)));
      setWrong("");
    } catch (error) {
      setWrong(messageOf(error));
    }
    await refresh();
  };
  const paired = channels.data?.channels.filter((one) => one.people !== false) ?? [];
  const known = people.data?.people ?? [];
  const strangers = met.data?.strangers ?? [];
  const foot = (
    <>
      <p id="people-told" role="status">{told}</p>
      <p id="people-wrong" class="wrong" role="alert">{wrong || channels.problem || people.problem || met.problem}</p>
    </>
  );
  return (
    <Lists id="people" title={t("People and channels")} close={close} foot={foot}>
      <Part id="people-1" title={t("Channels")}>
        <ul id="people-channels">{channels.data?.channels.map((one) => <ChannelRow key={one.name} channel={one} />)}</ul>
      </Part>
      <Part id="people-2" title={t("Who may talk")}>
        <Held id="people-known">{known.map((one) => <PersonRow key={one.name} person={one} act={act} />)}</Held>
        {people.data && !known.length ? <p id="people-none" class="soft">{paired.length ? NOBODY : NOBODY_CAN}</p> : null}
      </Part>
      <Part id="people-3" title={t("Let somebody in")}>
        <Pairing channels={paired} people={known} codes={met.data?.codes ?? []} wrong={setWrong} made={refresh} />
      </Part>
      <Part id="people-4" title={t("Refused lately")}>
        <p id="people-quiet" class="soft">{met.data && (strangers.length ? t("They got no answer, and their messages were not kept.") : t("Nobody, since the gateway started."))}</p>
        <Held id="people-strangers">{strangers.map((one) => <StrangerRow key={one.account} stranger={one} act={act} />)}</Held>
      </Part>
    </Lists>
  );
}

const Part = ({ id, title, children }: { id: string; title: string; children: ComponentChildren }) => (
  <section aria-labelledby={id}>
    <h3 id={id}>{title}</h3>
    {children}
  </section>
);

/** Keeps the focus in `root`: a button that goes leaves it to the one in its place, else to the first one or the title. */
function useHeldFocus<T extends HTMLElement>(): { current: T | null } {
  const root = useRef<T>(null);
  const active = document.activeElement as HTMLElement | null;
  const held = root.current?.contains(active) ? active!.dataset.at ?? "" : null;
  useLayoutEffect(() => {
    if (held === null || root.current!.contains(document.activeElement)) return;
    const again = root.current!.querySelector<HTMLElement>(`[data-at="${CSS.escape(held)}"]`) ?? root.current!.querySelector("button");
    (again ?? document.getElementById("people-title"))?.focus();
  });
  return root;
}

const Held = ({ id, children }: { id: string; children: ComponentChildren }) => <ul id={id} ref={useHeldFocus<HTMLUListElement>()}>{children}</ul>;

function PersonRow({ person: { name, role, accounts }, act }: { person: Person; act: Act }) {
  return (
    <li>
      <p><bdi class="name">{plainly(name)}</bdi><small>{role}</small></p>
      {accounts.length
        ? <ul>{accounts.map((one) => <AccountRow key={one.account} name={name} of={one} act={act} />)}</ul>
        : <p class="soft">{t("no account yet: make a code")}</p>}
    </li>
  );
}

function AccountRow({ name, of: { account, origin }, act }: { name: string; of: Person["accounts"][number]; act: Act }) {
  const root = useHeldFocus<HTMLLIElement>();
  const [isAsked, setAsked] = useState(false); // whether it is removed, before that is confirmed
  const remove = () => act("DELETE", `/v1/people/${encodeURIComponent(account)}`, undefined, () => t("{account} is a stranger's account now.", { account: plainly(account) }));
  return (
    <li ref={root} class={isAsked ? "asked" : ""}>
      <bdi class="account" title={plainly(account)}>{plainly(account)}</bdi>
      {isAsked ? null : <small>{ORIGINS[origin] ?? origin}</small>}
      {isAsked || origin === "config" ? null : <Button at={account} act={() => setAsked(true)} label={t("Remove {account} of {name}", { account, name })}>{t("Remove")}</Button>}
      {isAsked ? (
        <span class="sure">
          {t("Remove it? Its messages are then refused.")}
          <Button at={account} act={() => setAsked(false)}>{t("Keep")}</Button>
          <Button at={`${account} sure`} act={remove} label={t("Yes, remove {account}", { account })} kind="danger">{t("Remove")}</Button>
        </span>
      ) : null}
    </li>
  );
}

function StrangerRow({ stranger: { account, name, times, last }, act }: { stranger: Stranger; act: Act }) {
  const letIn = (role: string) => () => act<Person>("POST", "/v1/people", { account, role }, (who) => t("{account} is {name} ({role}) now.", { account: plainly(account), name: plainly(who.name), role: who.role }));
  const what = (role: string) => t("Let {account} in as {role}", { account, role });
  return (
    <li>
      <p>
        <bdi class="name">{plainly(name) || t("no name")}</bdi>
        <bdi class="account" title={plainly(account)}>{plainly(account)}</bdi>
        <small>{howOften(times, ago(last))}</small>
      </p>
      <p class="options">
        <Button at={`${account} member`} act={letIn("member")} label={what("member")}>{t("Let in as member")}</Button>
        <Button at={`${account} guest`} act={letIn("guest")} label={what("guest")}>{t("as guest")}</Button>
      </p>
    </li>
  );
}

/** How often somebody wrote, and when last: `ago` of that time. */
function howOften(count: number, when: string): string {
  if (when === t("now")) return count === 1 ? t("once, just now") : t("{count} times, just now", { count });
  if (!/min$/.test(when)) return count === 1 ? t("once, last {when}", { when }) : t("{count} times, last {when}", { count, when });
  return count === 1 ? t("once, last {when} ago", { when }) : t("{count} times, last {when} ago", { count, when });
}

interface ButtonProps {
  /** What it is about, by which the focus finds it again. */
  at: string;
  act: () => unknown;
  label?: string;
  kind?: string;
  children: string;
}

const Button = ({ at, act, label, kind = "", children }: ButtonProps) => (
  <button type="button" class={`tiny ${kind}`.trim()} data-at={at} aria-label={label && plainly(label)} onClick={act}>{children}</button>
);

function ChannelRow({ channel: { name, kind, state, since, error, retry_at: again, counts, refused } }: { channel: ChannelState }) {
  const silent = state === "offline" || state === "denied";
  const often = Object.values(refused).reduce((sum, one) => sum + one, 0);
  const told = [
    kind === name ? "" : kind,
    t("{state} since {when}", { state: STATES[state] ?? state, when: clock(since) }),
    t("{count} heard", { count: counts.accepted }),
    often ? t("{count} refused", { count: often }) : "",
    counts.quarantined ? t("{count} quarantined", { count: counts.quarantined }) : "",
  ];
  return (
    <li data-state={state}>
      <p>
        <span class="dot" data-state={state} />
        <span class="name">{name}</span>
        <small>{told.filter(Boolean).join(" · ")}</small>
      </p>
      {silent && error ? <p class="why">{plainly(error) + (again ? ` ${t("It is tried again at {when}.", { when: clock(again) })}` : "")}</p> : null}
    </li>
  );
}
