// What an empty conversation shows: whose it is, where that agent works, and what one may say first.

import { type Signal, signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { ask, at, messageOf } from "./api.ts";
import { byId } from "./dom.ts";
import { plainly } from "./text.ts";
import { t } from "./texts.ts";

const DEMO = "demo"; // the name of the agent that comes with Semel
const FIRST_WORDS = [t("What can you do?"), t("What is in this folder?"), t("Which tools do you have?")];
const DEMO_WORDS = ["help", "file", "ask"];

/** The folder of each configured agent, and the agents on the gateway's machine, once they are known. */
const known = signal<{ workspaces?: Record<string, string>; found?: { name: string }[] }>({});
let isAsked = false;

async function loadKnown(): Promise<void> {
  isAsked = true;
  try {
    known.value = await ask("GET", "/v1/status");
  } catch {
    isAsked = false; // without a connection; the next empty conversation asks again
  }
}

/** The folder of each session that was made here or that nothing was said in yet, once it is known. */
const folders = signal<Record<string, string | undefined>>({});

async function loadFolder(key: string): Promise<void> {
  folders.value = { ...folders.value, [key]: undefined };
  const session = await ask<{ workspace?: string }>("GET", at(key)).catch(() => null);
  folders.value = { ...folders.value, [key]: session?.workspace };
}

export interface EmptyConversation {
  key: string;
  agent: string;
  isFresh: boolean;
}

interface WelcomeProps {
  /** null: the conversation is not empty. */
  shown: Signal<EmptyConversation | null>;
  hasChannels: Signal<boolean>;
  send: (text: string) => void;
  /** Called when the session was made, before its first message. */
  made: () => void;
}

export function Welcome({ shown, hasChannels, send, made }: WelcomeProps) {
  if (!shown.value) return null;
  const { key, agent, isFresh } = shown.value;
  if (!isAsked) void loadKnown();
  if (!isFresh && !(key in folders.value)) void loadFolder(key);
  const folder = folders.value[key] ?? known.value.workspaces?.[agent];
  return (
    <>
      {agent ? <h2>{plainly(agent)}</h2> : null}
      {folder ? <p class="folder">{t("works in")} <code>{plainly(folder)}</code></p> : null}
      {isFresh && folder ? <FolderChoice key={key} session={key} agent={agent} folder={folder} made={made} /> : null}
      <p>{isFresh ? t("A new session begins with your first message.") : t("Nothing has been said here yet.")}</p>
      <div class="tries" role="group" aria-label={t("Things to say")}>
        {(agent === DEMO ? DEMO_WORDS : FIRST_WORDS).map((words) => (
          <button key={words} type="button" title={t("Send this")} onClick={() => send(words)}>{words}</button>
        ))}
      </div>
      {agent === DEMO && known.value.found?.length ? (
        <p class="installed">{t("Found on this machine. To use one:")} {known.value.found.map(({ name }) => <code key={name}>semel agents add {plainly(name)}</code>)}</p>
      ) : null}
      {hasChannels.value ? (
        <button type="button" class="quiet link" onClick={() => byId("people-button").click()}>{t("People and channels")}</button>
      ) : null}
    </>
  );
}

interface FolderChoiceProps {
  session: string;
  agent: string;
  /** Where the agent works if no other folder is chosen. */
  folder: string;
  made: () => void;
}

/** Makes the new session in another folder of the gateway's machine. What the gateway refuses is said here. */
function FolderChoice({ session, agent, folder, made }: FolderChoiceProps) {
  const [isOpen, setOpen] = useState(false);
  const [problem, setProblem] = useState("");
  const [isBusy, setBusy] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), [isOpen]);
  if (!isOpen) return <button type="button" class="quiet link" onClick={() => setOpen(true)}>{t("Work in another folder")}</button>;
  const make = async (event: SubmitEvent) => {
    event.preventDefault();
    const wanted = new FormData(event.currentTarget as HTMLFormElement).get("folder");
    setBusy(true);
    try {
      const { workspace } = await ask<{ workspace?: string }>("PUT", at(session), { agent, folder: wanted });
      folders.value = { ...folders.value, [session]: workspace };
      made();
    } catch (error) {
      setProblem(messageOf(error));
    }
    setBusy(false);
  };
  return (
    <form class="place" onSubmit={make}>
      <input name="folder" aria-label={t("Folder on the gateway's machine")} defaultValue={folder} required autocapitalize="off" spellcheck={false} ref={field} />
      <button type="submit" disabled={isBusy}>{t("Work there")}</button>
      {problem ? <p class="wrong" role="alert">{problem}</p> : null}
    </form>
  );
}
