// Why: the story of a message, a part, a turn or a job, as a timeline.

import { signal } from "@preact/signals";
import { ask, messageOf } from "../api.ts";
import { Lists, openLists } from "../dialog.tsx";
import { fullTime, openly, plainly } from "../text.ts";
import { locale, t } from "../texts.ts";
import type { Story } from "../wire.ts";
import { stepsOf } from "./story.ts";

interface Asked {
  ref: string;
  story: Story | null;
  wrong: string;
}

const DAY = new Intl.DateTimeFormat(locale, { dateStyle: "medium" });
const SECONDS = new Intl.DateTimeFormat(locale, { timeStyle: "medium" });

const asked = signal<Asked | null>(null);

/** Shows the story of what `ref` names: "KEY#7" (an entry), "p1" (a part), "t1" (a turn), the name of a schedule. */
export async function openStory(ref: string): Promise<void> {
  const mine: Asked = { ref, story: null, wrong: "" };
  asked.value = mine;
  openLists("story", (close) => <StoryView close={close} />);
  let told: Partial<Asked>;
  try {
    told = { story: await ask<Story>("GET", `/v1/why/${encodeURIComponent(ref)}`) };
  } catch (error) {
    told = { wrong: messageOf(error) };
  }
  if (asked.peek() === mine) asked.value = { ...mine, ...told };
}

function StoryView({ close }: { close: () => void }) {
  const { ref = "", story = null, wrong = "" } = asked.value ?? {};
  return (
    <Lists id="story" title={t("Why: {ref}", { ref: plainly(ref) })} close={close} foot={wrong ? <p class="wrong" role="alert">{plainly(wrong)}</p> : null}>
      {story ? <Steps story={story} /> : null}
      {!story && !wrong ? <p class="hint">{t("Asking the gateway ...")}</p> : null}
    </Lists>
  );
}

function Steps({ story }: { story: Story }) {
  const steps = stepsOf(story);
  const isSent = steps.some(({ stage }) => / p\d+$/.test(stage));
  return (
    <>
      <ol class="steps">
        {steps.map(({ at, stage, text, outcome }, place) => (
          <li key={place} data-outcome={outcome} class={stage ? "begins" : ""}>
            <span class="stage">{stage}</span>
            <time dateTime={new Date(at).toISOString()} title={fullTime(at)}>
              {place && DAY.format(steps[place - 1]!.at) === DAY.format(at) ? "" : `${DAY.format(at)}, `}
              {SECONDS.format(at)}
            </time>
            <span class="text">{openly(text)}</span>
          </li>
        ))}
      </ol>
      <p class="soft">
        {isSent
          ? t("Besides what left for the chat, it is shown on the page, in the terminal and in editors as soon as it is recorded.")
          : t("It is shown on the page, in the terminal and in editors as soon as it is recorded.")}
      </p>
    </>
  );
}
