// The state of the gateway: its agents and what they use, its channels, the disk, and the books, law by law.

import { useState } from "preact/hooks";
import { ask } from "../api.ts";
import { Time } from "../rows/parts.tsx";
import { clock, plainly } from "../text.ts";
import { t, tWord } from "../texts.ts";
import type { AgentProcess, Book, ChannelState, GatewayStatus } from "../wire.ts";
import { Deed, SessionName, Told, numberText, sizeText } from "./pieces.tsx";
import { usePolled } from "./polled.ts";
import type { ViewProps } from "./views.tsx";

const EVERY_MS = 5000;

export function StatusView({ list }: ViewProps) {
  const polled = usePolled<GatewayStatus>("/v1/status", EVERY_MS);
  const titles = list.rows.value;
  return (
    <Told polled={polled}>
      {(status) => (
        <>
          <section aria-labelledby="status-1">
            <h2 id="status-1">{t("Gateway")}</h2>
            {status.problem ? <p class="wrong" role="alert">{status.problem}</p> : null}
            <p>
              Semel {plainly(status.version)}, {t("since")} <Time at={status.started} /> · {loadText(status)}
            </p>
            <p class="soft">{storageText(status)}</p>
            <p class="soft">{status.backup ? <>{t("Last backup:")} <Time at={status.backup.at} />, {plainly(status.backup.folder)}</> : <>{t("No backup is known:")} <code>semel backup</code> {t("makes one.")}</>}</p>
          </section>
          <section aria-labelledby="status-2">
            <h2 id="status-2">{t("Agents")}</h2>
            {status.missing_agents.map(({ text }) => <p key={text} class="why">{plainly(text)}</p>)}
            <ul class="facts">
              {status.configured.map((name) => (
                <li key={name}>
                  <p>
                    <b>{plainly(name)}</b>
                    <span class="soft">{plainly(status.workspaces[name] ?? "")}</span>
                  </p>
                  {problemsOf(status, name).map((text) => <p key={text} class="why">{plainly(text)}</p>)}
                  {status.agents.filter((one) => one.agent === name).map((one) => (
                    <Process key={one.spawn} one={one} title={titles.get(one.session)?.title} />
                  ))}
                </li>
              ))}
            </ul>
          </section>
          <section aria-labelledby="status-3">
            <h2 id="status-3">{t("Channels")}</h2>
            {status.missing_channels.map(({ text }) => <p key={text} class="why">{plainly(text)}</p>)}
            {status.channels.length ? (
              <ul class="facts">{status.channels.map((one) => <Channel key={one.name} one={one} />)}</ul>
            ) : (
              <p class="soft">{t("None is configured.")}</p>
            )}
          </section>
          <Books last={status.books} />
        </>
      )}
    </Told>
  );
}

/** How many turns run, and how many streams are open. */
function loadText({ turns, watchers }: GatewayStatus): string {
  const running = turns > 1 ? t("{count} turns run", { count: turns }) : turns ? t("1 turn runs") : t("no turns run");
  const open = watchers > 1 ? t("{count} open streams", { count: watchers }) : watchers ? t("1 open stream") : t("no open streams");
  return `${running} · ${open}`;
}

function storageText({ disk, database, object_storage: storage }: GatewayStatus): string {
  const ledger = { size: sizeText(disk.ledger) };
  const used = [
    database ? t("Ledger {size} in the database {name}", { ...ledger, name: plainly(database) }) : t("Ledger {size}", ledger),
    t("files {size}", { size: sizeText(disk.files) }),
    disk.growth === null ? "" : t("{size} more a day", { size: sizeText(disk.growth) }),
  ];
  const objects = storage ? ` · ${t("files in {place}", { place: plainly(storage.url) })}${storage.problem ? `: ${plainly(storage.problem)}` : ""}` : "";
  return `${used.filter(Boolean).join(", ")} · ${t("{size} free on the disk", { size: sizeText(disk.free) })}${objects}`;
}

/** What is wrong with an agent, each once, however many of its processes say so. */
function problemsOf({ checks, agents }: GatewayStatus, name: string): string[] {
  const check = checks[name];
  const found = check && check.level !== "ok" ? [[check.text, check.remedy].filter(Boolean).join(". ")] : [];
  return [...new Set([...found, ...agents.filter((one) => one.agent === name && one.problem).map((one) => one.problem)])];
}

function Process({ one, title }: { one: AgentProcess; title: string | null | undefined }) {
  const { pid, memory, usage, busy } = one;
  const cost = usage?.cost?.amount === undefined ? "" : `${numberText(usage.cost.amount, 2)} ${usage.cost.currency ?? ""}`.trim();
  const context = usage?.used && usage.size ? t("{percent} % of {size} tokens", { percent: Math.round((100 * usage.used) / usage.size), size: numberText(usage.size) }) : "";
  const facts = [busy ? t("works") : t("waits"), pid === null ? "" : t("process {pid}", { pid }), memory === null ? "" : sizeText(memory), context, cost];
  return (
    <p class="process">
      <span class="dot" data-state={busy ? "running" : ""} />
      <SessionName session={one.session} title={title} />
      <span class="soft">{facts.filter(Boolean).join(" · ")}</span>
    </p>
  );
}

function Channel({ one }: { one: ChannelState }) {
  const { name, kind, state, since, error, retry_at: retryAt, counts } = one;
  return (
    <li>
      <p>
        <span class="dot" data-state={state} />
        <b>{plainly(name)}</b>
        <span class="soft">{[kind === name ? "" : plainly(kind), t("{state} since {when}", { state: tWord(state), when: clock(since) }), t("{count} accepted", { count: counts.accepted })].filter(Boolean).join(" · ")}</span>
      </p>
      {error ? <p class="why">{plainly(error)}{retryAt ? `; ${t("tried again at {when}", { when: clock(retryAt) })}` : ""}</p> : null}
    </li>
  );
}

/** The books in one line, and each law once it is asked for. */
function Books({ last }: { last: GatewayStatus["books"] }) {
  const [books, setBooks] = useState<Book[] | null>(null);
  const check = async () => setBooks((await ask<{ books: Book[] }>("GET", "/v1/doctor")).books);
  const broken = books?.filter((book) => !book.ok) ?? [];
  const fresh = books && (broken.length ? t("{count} of {all} laws are broken.", { count: broken.length, all: books.length }) : t("All {count} laws hold now.", { count: books.length }));
  const told = last && (last.broken.length ? t("Broken: {names}.", { names: last.broken.map(plainly).join(", ") }) : t("All {count} laws held, over {entries} entries.", { count: last.laws, entries: numberText(last.entries) }));
  const isWrong = books ? broken.length > 0 : Boolean(last?.broken.length);
  return (
    <section aria-labelledby="status-4">
      <h2 id="status-4">{t("The books")}</h2>
      <p class={isWrong ? "wrong" : ""} role="status">
        {fresh ?? told ?? t("They were not checked since the gateway started.")}
        {!books && last ? <> <Time at={last.at} /></> : null}
      </p>
      <p><Deed text={books ? t("Check again") : t("Check each law now")} act={check} /></p>
      {books ? (
        <ul class="laws">
          {[...broken, ...books.filter((book) => book.ok)].map((book) => (
            <li key={book.name} data-ok={book.ok}>
              <b>{plainly(book.name)}</b> {plainly(book.what)}
              {book.ok ? null : <pre tabIndex={0}>{plainly(JSON.stringify(book.rows))}</pre>}
            </li>
          ))}
        </ul>
      ) : null}
    </section>
  );
}
