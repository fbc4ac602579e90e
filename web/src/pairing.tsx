// A pairing code: created here, shown once, and followed until it is used, void or expired.

import { useEffect, useRef, useState } from "preact/hooks";
import { ask, messageOf } from "./api.ts";
import { clock, plainly } from "./text.ts";
import { t, tWord } from "./texts.ts";
import type { ChannelState, PairingCode, Person } from "./wire.ts";

interface PairingProps {
  /** The channels on which people have accounts. */
  channels: ChannelState[];
  people: Person[];
  /** The codes that the gateway knows, without their texts. */
  codes: PairingCode[];
  /** Shows an error; "" removes it. */
  wrong: (text: string) => void;
  /** Called when a code was created, to reload the lists. */
  made: () => unknown;
}

const ROLES = ["", "owner", "member", "guest"]; // "": the one that the name has
const ENDS: Record<string, (account: string) => string> = {
  used: (account) => t("It was used: {account} may talk now.", { account }),
  void: () => t("It was sent where others could read it, and is void. Make another one."),
  expired: () => t("It has expired. Make another one."),
};

export function Pairing({ channels, people, codes, wrong, made }: PairingProps) {
  const [code, setCode] = useState<PairingCode | null>(null);
  const [busy, setBusy] = useState(false);
  const isMine = (one: PairingCode): boolean => code !== null && one.channel === code.channel && one.expires === code.expires;
  const make = async (event: SubmitEvent) => {
    event.preventDefault();
    const told = [...new FormData(event.currentTarget as HTMLFormElement)].map(([name, value]) => [name, String(value).trim()]);
    setBusy(true);
    try {
      setCode(await ask<PairingCode>("POST", "/v1/people/codes", Object.fromEntries(told.filter(([, value]) => value))));
      wrong("");
      void made();
    } catch (error) {
      wrong(messageOf(error));
    }
    setBusy(false);
  };
  const waiting = codes.filter((one) => one.state === "open" && !isMine(one));
  return (
    <>
      <form id="pair" hidden={!channels.length} onSubmit={make}>
        <label>{t("Channel")} <select id="pair-channel" name="channel">{channels.map(({ name }) => <option key={name} value={name}>{name}</option>)}</select></label>
        <label>{t("Name")} <input id="pair-name" name="name" list="pair-names" maxLength={64} autocomplete="off" spellcheck={false} placeholder={t("optional")} title={t("Without one they have the name they use there")} /></label>
        <datalist id="pair-names">{people.map(({ name }) => <option key={name} value={name} />)}</datalist>
        <label>
          {t("Role")}{" "}
          <select id="pair-role" name="role" title={t("Owner: everything. Member: talks and gives commands. Guest: only talks. Default: the role that the name has, else member")}>
            {ROLES.map((role) => <option key={role} value={role}>{role ? tWord(role) : t("default")}</option>)}
          </select>
        </label>
        <button id="pair-make" type="submit" class="main" disabled={busy}>{t("Make a code")}</button>
      </form>
      {code ? <Code key={code.code} code={code} told={codes.find(isMine)} /> : null}
      <p id="pair-open" class="soft">
        {waiting.map((one) => t("A code for {name} ({role}) on {channel} waits to be sent, until {when}.", { name: one.name ?? t("somebody"), role: one.role, channel: one.channel, when: clock(one.expires) })).join("\n")}
      </p>
    </>
  );
}

/** A code that was made here, until it is over: then only how it ended. `told`: what the gateway tells of it. */
function Code({ code: { code, channel, name, role, expires }, told }: { code: PairingCode; told: PairingCode | undefined }) {
  const [now, setNow] = useState(Date.now());
  const [copied, setCopied] = useState(false);
  const ended = useRef(""); // how, once it is over: the gateway forgets it then
  const text = useRef<HTMLOutputElement>(null);
  useEffect(() => {
    text.current?.focus();
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  const seconds = Math.ceil((expires - now) / 1000);
  const end = ENDS[told?.state ?? ""] ?? (seconds <= 0 ? ENDS.expired : undefined);
  if (end) ended.current ||= end(plainly(told?.account ?? ""));
  if (ended.current) return <div id="code" data-state="over"><p id="code-over" role="status">{ended.current}</p></div>;
  const copy = async () => {
    await navigator.clipboard.writeText(code);
    setCopied(true);
  };
  return (
    <div id="code" data-state="open">
      <p>
        <output id="code-text" tabIndex={-1} aria-label={t("The code")} ref={text}>{code}</output>{" "}
        {navigator.clipboard ? <button id="code-copy" type="button" class="tiny" onClick={copy}>{copied ? t("Copied") : t("Copy")}</button> : null}
      </p>
      <p id="code-how">{t("{who} sends this code to the gateway's account on {channel}, in a private chat and with nothing else in the message. It gives the role {role}.", { who: name ?? t("The person to let in"), channel, role })}</p>
      <p id="code-left" class="soft">{t("It is shown only here and now, works once, and expires in {time}.", { time: `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}` })}</p>
    </div>
  );
}
