// What leaves for platforms and has not arrived: held and rejected parts with their decisions, and what waits to leave.

import { Fragment } from "preact";
import { ask } from "../api.ts";
import { AFTER_NO, VERDICTS, type Verdict } from "../rows/fate.tsx";
import { Time } from "../rows/parts.tsx";
import { clock, openly, plainly } from "../text.ts";
import { t } from "../texts.ts";
import type { OutgoingPart } from "../wire.ts";
import { byDestination } from "./destinations.ts";
import { Deed, SessionName, StoryButton, Told } from "./pieces.tsx";
import { type Polled, usePolled } from "./polled.ts";
import type { ViewProps } from "./views.tsx";

const EVERY_MS = 5000;
const LIMIT = 200;
type Shown = "held" | "rejected" | "unknown" | "sending" | "queued";

const SECTIONS: [state: Shown, title: string, about: string][] = [
  ["held", t("Held"), t("Nobody knows whether these arrived. Look there, then decide.")],
  ["rejected", t("Rejected"), t("The platform refused these. They can be sent again once the cause is removed.")],
  ["unknown", t("Unknown"), t("Semel looks whether these arrived.")],
  ["sending", t("Leaving"), ""],
  ["queued", t("Waiting to leave"), ""],
];
const DECISIONS: Partial<Record<Shown, readonly Verdict[]>> = { held: VERDICTS, rejected: AFTER_NO };

type Answer = { parts: OutgoingPart[]; more: boolean };

export function OutboxView({ list }: ViewProps) {
  const all = SECTIONS.map(([state]) => usePolled<Answer>(`/v1/parts?state=${state}&limit=${LIMIT}`, EVERY_MS));
  const isEmpty = all.every(({ data, problem }) => data && !data.parts.length && !problem);
  return (
    <>
      {isEmpty ? <p class="hint">{t("Nothing waits to leave, and nothing needs a decision.")}</p> : null}
      {SECTIONS.map(([state, title, about], place) => <PartsOf key={state} state={state} title={title} about={about} list={list} polled={all[place]!} />)}
    </>
  );
}

/** The parts in one state, by their destinations: in each, the first to leave comes first. */
function PartsOf({ state, title, about, list, polled }: { state: Shown; title: string; about: string; polled: Polled<Answer> } & ViewProps) {
  if (polled.data && !polled.data.parts.length && !polled.problem) return null;
  return (
    <section class="parts" data-state={state} aria-labelledby={`outbox-${state}`}>
      <h2 id={`outbox-${state}`}>{title}</h2>
      <Told polled={polled}>
        {({ parts, more }) => (
          <>
            {parts.length && about ? <p class="soft">{about}</p> : null}
            {byDestination(parts).map(([dest, those]) => (
              <Fragment key={dest}>
                <h3>{plainly(dest)}</h3>
                <ul class="facts">
                  {those.map((part) => <Part key={part.id} part={part} title={list.rows.value.get(part.session)?.title} decisions={DECISIONS[state] ?? []} again={polled.again} />)}
                </ul>
              </Fragment>
            ))}
            {more ? <p class="soft">{t("These are the newest {count}. For all of them:", { count: LIMIT })} <code>semel outbox list</code></p> : null}
          </>
        )}
      </Told>
    </section>
  );
}

interface PartProps {
  part: OutgoingPart;
  title: string | null | undefined;
  decisions: readonly Verdict[];
  again: () => Promise<void>;
}

function Part({ part, title, decisions, again }: PartProps) {
  const decide = async (verdict: string) => {
    try {
      await ask("POST", `/v1/parts/${part.id}/${verdict}`, {});
    } finally {
      await again();
    }
  };
  const possible = part.over ? decisions.filter(([verdict]) => verdict !== "resend") : decisions;
  const tried = part.attempts > 1 ? t("{count} attempts", { count: part.attempts }) : part.attempts ? t("1 attempt") : "";
  const due = part.due && part.attempts ? t("next at {when}", { when: clock(part.due) }) : "";
  return (
    <li>
      <p>
        <SessionName session={part.session} title={title} />
        <span class="soft">{[`p${part.id}`, tried, due].filter(Boolean).join(" · ")}</span>
        <Time at={part.at} />
      </p>
      <pre class="text" tabIndex={0}>{openly(part.text) || `(${plainly(part.kind)})`}</pre>
      {part.error ? <p class="why">{plainly(part.error)}</p> : null}
      {part.over ? <p class="soft">{t("It asks about something that is over.")}</p> : null}
      <div class="options">
        {possible.map(([verdict, text, about]) => <Deed key={verdict} text={text} title={about} act={() => decide(verdict)} />)}
        <StoryButton of={`p${part.id}`} />
      </div>
    </li>
  );
}
