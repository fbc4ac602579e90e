// What leaves for platforms and has not arrived: held and rejected parts with their decisions, and what waits to leave.

import { ask } from "../api.ts";
import { Time } from "../rows/parts.tsx";
import { clock, openly, plainly } from "../text.ts";
import type { OutgoingPart } from "../wire.ts";
import { Deed, SessionName, StoryButton, Told } from "./pieces.tsx";
import { usePolled } from "./polled.ts";
import type { ViewProps } from "./views.tsx";

const EVERY_MS = 5000;
const LIMIT = 200;
type Shown = "held" | "rejected" | "unknown" | "sending" | "queued";

const SECTIONS: [state: Shown, title: string, about: string][] = [
  ["held", "Held", "Nobody knows whether these arrived. Look there, then decide."],
  ["rejected", "Rejected", "The platform refused these. They can be sent again once the cause is removed."],
  ["unknown", "Unknown", "Semel looks whether these arrived."],
  ["sending", "Leaving", ""],
  ["queued", "Waiting to leave", ""],
];
type Verdict = readonly [verdict: string, text: string, title: string];
const DECISIONS: Partial<Record<Shown, readonly Verdict[]>> = {
  held: [
    ["resend", "Resend", "It is not there: send it again, marked as a repeat"],
    ["arrived", "It arrived", "It is there: mark it as delivered"],
    ["drop", "Drop", "Give it up"],
  ],
  rejected: [
    ["resend", "Send again", "Send it again, behind what waits"],
    ["drop", "Drop", "Give it up"],
  ],
};

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
            {parts.length ? null : <p class="soft">None.</p>}
            <ul class="facts">
              {parts.map((part) => <Part key={part.id} part={part} title={list.rows.value.get(part.session)?.title} decisions={DECISIONS[state] ?? []} again={polled.again} />)}
            </ul>
            {more ? <p class="soft">These are the newest {LIMIT}; <code>semel outbox list</code> has all.</p> : null}
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
      await ask("POST", `/v1/parts/${part.id}/${verdict}`, { by: "a person on the page" });
    } finally {
      await again();
    }
  };
  const possible = part.over ? decisions.filter(([verdict]) => verdict !== "resend") : decisions;
  const tried = part.attempts ? `${part.attempts} ${part.attempts === 1 ? "attempt" : "attempts"}` : "";
  const due = part.due && part.attempts ? `next at ${clock(part.due)}` : "";
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
      {part.over ? <p class="soft">It asks about something that is over.</p> : null}
      <div class="options">
        {possible.map(([verdict, text, about]) => <Deed key={verdict} text={text} title={about} act={() => decide(verdict)} />)}
        <StoryButton of={`p${part.id}`} />
      </div>
    </li>
  );
}
