// The slash commands of the gateway and of the open session's agent, and the files that its workspace has, for the menu of
// the message box.

import { ask, at } from "./api.ts";

const KEPT_MS = 30000;

export interface Command {
  name: string;
  by: "gateway" | "agent" | "workspace";
  /** What to write. */
  text: string;
  usage?: string;
  takes?: "nothing" | "text" | "word" | "number";
  description?: string;
}

const known = new Map<string, { at: number; commands: Promise<Command[]> }>();

/** The commands that may be written in a session; none if they cannot be had. */
export function commandsOf(key: string): Promise<Command[]> {
  const kept = known.get(key);
  if (kept && Date.now() - kept.at < KEPT_MS) return kept.commands;
  const asked = ask<{ commands: Command[] }>("GET", `/v1/commands?session=${encodeURIComponent(key)}`)
    .catch(() => ask<{ commands: Command[] }>("GET", "/v1/commands")) // the session begins with its first message
    .then(({ commands }) => commands)
    .catch(() => {
      known.delete(key);
      return [];
    });
  known.set(key, { at: Date.now(), commands: asked });
  return asked;
}

/** The beginning of a command that a text is; null if it is none, or its argument is being written. */
export function commandBegun(text: string): string | null {
  return /^\/\/?[\w:.-]*$/.test(text) ? text : null;
}

/** The commands that begin so, first those of that very name. */
export function commandsLike(begun: string, commands: Command[]): Command[] {
  const wanted = begun.toLowerCase();
  return commands.filter(({ text }) => text.toLowerCase().startsWith(wanted)).sort((a, b) => Number(b.text === wanted) - Number(a.text === wanted));
}

/** The beginning of a file's path that stands after an @ at the end of a text, with the @; null if there is none. */
export function fileBegun(text: string): string | null {
  return /(?:^|[\s("'`])(@[^\s@]*)$/.exec(text)?.[1] ?? null;
}

/** The files of a session's workspace that contain what was begun, as what can be chosen; none if they cannot be had. */
export async function filesLike(begun: string, key: string): Promise<Command[]> {
  const path = at(key, `/workspace-files?part=${encodeURIComponent(begun.slice(1))}`);
  const { files } = await ask<{ files: string[] }>("GET", path).catch(() => ({ files: [] as string[] }));
  return files.map((file) => ({ name: file, by: "workspace", text: `@${file}`, usage: file }));
}
