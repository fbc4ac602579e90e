// The state of the gateway: its agents and what they use, its channels, the disk, and the books, law by law.

import { useState } from "preact/hooks";
import { ask } from "../api.ts";
import { Time } from "../rows/parts.tsx";
import { clock, plainly } from "../text.ts";
import type { AgentProcess, Book, ChannelState, GatewayStatus } from "../wire.ts";
import { Deed, SessionName, Told, sizeText } from "./pieces.tsx";
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
            <h2 id="status-1">Gateway</h2>
            {status.problem ? <p class="wrong" role="alert">{status.problem}</p> : null}
            <p>
              Semel {plainly(status.version)}, since <Time at={status.started} /> · {count(status.turns, "turn runs", "turns run")} · {count(status.watchers, "open stream", "open streams")}
            </p>
            <p class="soft">{storageText(status)}</p>
            <p class="soft">{status.backup ? <>Last backup: <Time at={status.backup.at} />, {plainly(status.backup.folder)}</> : <>No backup is known: <code>semel backup</code> makes one.</>}</p>
          </section>
          <section aria-labelledby="status-2">
            <h2 id="status-2">Agents</h2>
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
            <h2 id="status-3">Channels</h2>
            {status.missing_channels.map(({ text }) => <p key={text} class="why">{plainly(text)}</p>)}
            {status.channels.length ? (
              <ul class="facts">{status.channels.map((one) => <Channel key={one.name} one={one} />)}</ul>
            ) : (
              <p class="soft">None is configured.</p>
            )}
          </section>
          <Books last={status.books} />
        </>
      )}
    </Told>
  );
}

const count = (number: number, one: string, more: string): string => `${number || "no"} ${number === 1 ? one : more}`;

function storageText({ disk, database, object_storage: storage }: GatewayStatus): string {
  const grows = disk.growth === null ? "" : `, ${sizeText(disk.growth)} more a day`;
  const where = database ? ` in the database ${plainly(database)}` : "";
  const objects = storage ? ` · files in ${plainly(storage.url)}${storage.problem ? `: ${plainly(storage.problem)}` : ""}` : "";
  return `Ledger ${sizeText(disk.ledger)}${where}, files ${sizeText(disk.files)}${grows} · ${sizeText(disk.free)} free on the disk${objects}`;
}

/** What is wrong with an agent, each once, however many of its processes say so. */
function problemsOf({ checks, agents }: GatewayStatus, name: string): string[] {
  const check = checks[name];
  const found = check && check.level !== "ok" ? [[check.text, check.remedy].filter(Boolean).join(". ")] : [];
  return [...new Set([...found, ...agents.filter((one) => one.agent === name && one.problem).map((one) => one.problem)])];
}

function Process({ one, title }: { one: AgentProcess; title: string | null | undefined }) {
  const { pid, memory, usage, busy } = one;
  const cost = usage?.cost?.amount === undefined ? "" : `${usage.cost.amount.toFixed(2)} ${usage.cost.currency ?? ""}`.trim();
  const context = usage?.used && usage.size ? `${Math.round((100 * usage.used) / usage.size)} % of ${usage.size.toLocaleString()} tokens` : "";
  const facts = [busy ? "works" : "waits", pid === null ? "" : `process ${pid}`, memory === null ? "" : sizeText(memory), context, cost];
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
        <span class="soft">{[kind === name ? "" : plainly(kind), `${state} since ${clock(since)}`, `${counts.accepted} accepted`].filter(Boolean).join(" · ")}</span>
      </p>
      {error ? <p class="why">{plainly(error)}{retryAt ? `; tried again at ${clock(retryAt)}` : ""}</p> : null}
    </li>
  );
}

/** The books in one line, and each law once it is asked for. */
function Books({ last }: { last: GatewayStatus["books"] }) {
  const [books, setBooks] = useState<Book[] | null>(null);
  const check = async () => setBooks((await ask<{ books: Book[] }>("GET", "/v1/doctor")).books);
  const broken = books?.filter((book) => !book.ok) ?? [];
  const fresh = books && (broken.length ? `${broken.length} of ${books.length} laws are broken.` : `All ${books.length} laws hold now.`);
  const told = last && (last.broken.length ? `Broken: ${last.broken.map(plainly).join(", ")}.` : `All ${last.laws} laws held, over ${last.entries.toLocaleString()} entries.`);
  const isWrong = books ? broken.length > 0 : Boolean(last?.broken.length);
  return (
    <section aria-labelledby="status-4">
      <h2 id="status-4">The books</h2>
      <p class={isWrong ? "wrong" : ""} role="status">
        {fresh ?? told ?? "They were not checked since the gateway started."}
        {!books && last ? <> <Time at={last.at} /></> : null}
      </p>
      <p><Deed text={books ? "Check again" : "Check each law now"} act={check} /></p>
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
