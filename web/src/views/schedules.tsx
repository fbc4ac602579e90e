// The schedules, with their next and last firing; each can be run now, paused and resumed.

import { ask } from "../api.ts";
import { Time } from "../rows/parts.tsx";
import { isOwner } from "../rows/wording.ts";
import { openly, plainly } from "../text.ts";
import { t, tWord } from "../texts.ts";
import type { Schedule } from "../wire.ts";
import { Deed, SessionName, StoryButton, Told } from "./pieces.tsx";
import { usePolled } from "./polled.ts";
import type { ViewProps } from "./views.tsx";

const EVERY_MS = 10000;

export function SchedulesView({ list }: ViewProps) {
  const polled = usePolled<{ schedules: Schedule[] }>("/v1/schedules", EVERY_MS);
  return (
    <Told polled={polled}>
      {({ schedules }) => (
        <>
          {schedules.length ? null : <p class="hint">{t("There is no schedule. An agent makes one when you ask it to, and so does")} <code>semel schedules add</code>.</p>}
          <ul class="facts">
            {schedules.map((one) => <ScheduleRow key={one.name} one={one} title={list.rows.value.get(one.session)?.title} again={polled.again} />)}
          </ul>
        </>
      )}
    </Told>
  );
}

const SOURCES: Record<Schedule["source"], string> = { config: "semel.toml", api: t("made by hand"), agent: t("made by the agent") };

function ScheduleRow({ one, title, again }: { one: Schedule; title: string | null | undefined; again: () => Promise<void> }) {
  const act = (verb: string) => async () => {
    try {
      await ask("POST", `/v1/schedules/${encodeURIComponent(one.name)}/${verb}`);
    } finally {
      await again();
    }
  };
  const when = one.cron ? `${one.cron} (${one.tz})` : one.every ? t("every {interval}", { interval: one.every }) : t("at {when}", { when: one.at ?? "" });
  return (
    <li>
      <p>
        <b>{plainly(one.name)}</b>
        <SessionName session={one.session} title={title} />
        <span class="soft">{[plainly(when), SOURCES[one.source]].join(" · ")}</span>
      </p>
      <pre class="text" tabIndex={0}>{openly(one.text)}</pre>
      <p class="soft">
        {one.next ? <span>{t("next")} <Time at={one.next} /></span> : <span>{nothingNext(one)}</span>}
        {one.last ? <span>{t("last")} <Time at={one.last.ran} />: {plainly(tWord(one.last.state))}{one.last.by ? `, ${isOwner(one.last.by) ? t("run by you") : t("run by {name}", { name: plainly(one.last.by) })}` : ""}</span> : <span>{t("has not run yet")}</span>}
      </p>
      {one.error ? <p class="why">{plainly(one.error)}</p> : null}
      <div class="options">
        {one.unconfigured ? null : <Deed text={t("Run now")} title={t("Fire it once; its next time stays")} act={act("run")} />}
        {one.unconfigured ? null : one.enabled ? <Deed key="pause" text={t("Pause")} act={act("pause")} /> : <Deed key="resume" text={t("Resume")} act={act("resume")} />}
        {one.last ? <StoryButton of={one.name} /> : null}
      </div>
    </li>
  );
}

function nothingNext({ unconfigured, enabled }: Schedule): string {
  if (unconfigured) return t("semel.toml does not name it any more: it does not fire");
  return enabled ? t("over") : t("paused");
}
