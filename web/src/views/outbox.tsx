// What leaves for platforms and has not arrived: held and rejected parts with their decisions, and what waits to leave.

import { ask } from "../api.ts";
import { AFTER_NO, VERDICTS, type Verdict } from "../rows/fate.tsx";
import { Time } from "../rows/parts.tsx";
import { clock, openly, plainly } from "../text.ts";
import { t } from "../texts.ts";
import type { OutgoingPart } from "../wire.ts";
import { Deed, SessionName, StoryButton, Told } from "./pieces.tsx";
import { usePolled } from "./polled.ts";
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

export function OutboxView({ list }: ViewProps) {
  return (
    <>
      {SECTIONS.map(([state, title, about]) => <PartsOf key={state} state={state} title={title} about={about} list={list} />)}
    </>
  );
}

function PartsOf({ state, title, about, list }: { state: Shown; title: string; about: string } & ViewProps) {
  const polled = usePolled<{ parts: OutgoingPart[]; more: boolean }>(`/v1/parts?state=${state}&limit=${LIMIT}`, EVERY_MS);
  return (
    <section class="parts" data-state={state} aria-labelledby={`outbox-${state}`}>
      <h2 id={`outbox-${state}`}>{title}</h2>
      <Told polled={polled}>
        {({ parts, more }) => (
          <>
            {parts.length && about ? <p class="soft">{about}</p> : null}
            {parts.length ? null : <p class="soft">{t("None.")}</p>}
            <ul class="facts">
              {parts.map((part) => <Part key={part.id} part={part} title={list.rows.value.get(part.session)?.title} decisions={DECISIONS[state] ?? []} again={polled.again} />)}
            </ul>
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
        <b>{plainly(part.dest)}</b>
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
