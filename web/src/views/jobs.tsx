// The background jobs that are not over, of all sessions.

import { ask } from "../api.ts";
import { Time } from "../rows/parts.tsx";
import { openly, plainly } from "../text.ts";
import { t } from "../texts.ts";
import type { Job } from "../wire.ts";
import { Deed, SessionName, StoryButton, Told } from "./pieces.tsx";
import { usePolled } from "./polled.ts";
import type { ViewProps } from "./views.tsx";

const EVERY_MS = 5000;

export function JobsView({ list }: ViewProps) {
  const polled = usePolled<{ jobs: Job[] }>("/v1/jobs", EVERY_MS);
  return (
    <Told polled={polled}>
      {({ jobs }) => (
        <>
          {jobs.length ? null : <p class="hint">{t("No command runs in the background.")}</p>}
          <ul class="facts">
            {jobs.map((job) => <JobRow key={job.id} job={job} title={list.rows.value.get(job.session)?.title} again={polled.again} />)}
          </ul>
        </>
      )}
    </Told>
  );
}

function JobRow({ job, title, again }: { job: Job; title: string | null | undefined; again: () => Promise<void> }) {
  const end = async () => {
    try {
      await ask("POST", `/v1/jobs/${encodeURIComponent(job.id)}/cancel`, {});
    } finally {
      await again();
    }
  };
  return (
    <li>
      <p>
        <span class="dot" data-state="running" />
        <b>{plainly(job.name ?? job.id)}</b>
        <SessionName session={job.session} title={title} />
        <span class="soft">{[plainly(job.agent), job.state === "asked" ? t("about to start") : t("runs"), t("for {count} s at most", { count: Math.round(job.seconds) })].join(" · ")}</span>
        <Time at={job.at} />
      </p>
      <pre class="text" tabIndex={0}>{openly(job.command)}</pre>
      <div class="options">
        <Deed text={t("End it")} kind="danger" title={t("End it with all that it started")} act={end} />
        <StoryButton of={job.id} />
      </div>
    </li>
  );
}
