// What an empty conversation shows: whose it is, where that agent works, and what one may say first.

import { type Signal, signal } from "@preact/signals";
import { ask } from "./api.ts";
import { byId } from "./dom.ts";
import { plainly } from "./text.ts";
import { t } from "./texts.ts";

const DEMO = "demo"; // the name of the agent that comes with Semel
const FIRST_WORDS = [t("What can you do?"), t("What is in this folder?"), t("Which tools do you have?")];
const DEMO_WORDS = ["help", "file", "ask"];

/** The folder of each configured agent, once it is known. */
const workspaces = signal<Record<string, string>>({});
let isAsked = false;

async function loadWorkspaces(): Promise<void> {
  isAsked = true;
  try {
    workspaces.value = (await ask<{ workspaces?: Record<string, string> }>("GET", "/v1/status")).workspaces ?? {};
  } catch {
    isAsked = false; // without a connection; the next empty conversation asks again
  }
}

export interface EmptyConversation {
  agent: string;
  isFresh: boolean;
}

interface WelcomeProps {
  /** null: the conversation is not empty. */
  shown: Signal<EmptyConversation | null>;
  hasChannels: Signal<boolean>;
  send: (text: string) => void;
}

export function Welcome({ shown, hasChannels, send }: WelcomeProps) {
  if (!shown.value) return null;
  const { agent, isFresh } = shown.value;
  if (!isAsked) void loadWorkspaces();
  const folder = workspaces.value[agent];
  return (
    <>
      {agent ? <h2>{plainly(agent)}</h2> : null}
      {folder ? <p class="folder">{t("works in")} <code>{plainly(folder)}</code></p> : null}
      <p>{isFresh ? t("A new session begins with your first message.") : t("Nothing has been said here yet.")}</p>
      <div class="tries" role="group" aria-label={t("Things to say")}>
        {(agent === DEMO ? DEMO_WORDS : FIRST_WORDS).map((words) => (
          <button key={words} type="button" title={t("Send this")} onClick={() => send(words)}>{words}</button>
        ))}
      </div>
      {hasChannels.value ? (
        <button type="button" class="quiet link" onClick={() => byId("people-button").click()}>{t("People and channels")}</button>
      ) : null}
    </>
  );
}
