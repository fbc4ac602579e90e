// What is done with a session as a whole, from its menus: it is changed, given a title, put away, saved, deleted. Loaded
// with the first menu.

import { ask, at } from "./api.ts";
import { openDialog } from "./dialog.tsx";
import { called } from "./text.ts";
import { t } from "./texts.ts";

export interface Managing {
  problem: (error: unknown) => void;
  /** Called when a session has changed. */
  changed: () => void;
}

/** Changes a session. Shows why it could not be changed. */
export async function changeSession({ problem, changed }: Managing, method: string, path: string, body?: unknown): Promise<void> {
  try {
    await ask(method, path, body);
  } catch (error) {
    problem(error);
  }
  changed();
}

/** Asks for a session's title. */
export function askTitle(managing: Managing, key: string, title: string | null | undefined): void {
  const dialog = openDialog("rename", (close) => <Rename title={title ?? ""} close={close} rename={(wanted) => void changeSession(managing, "PATCH", at(key), { title: wanted })} />);
  dialog.querySelector("input")!.select();
}

function Rename({ title, close, rename }: { title: string; close: () => void; rename: (title: string | null) => void }) {
  const submit = ({ currentTarget: form }: { currentTarget: HTMLFormElement }) => rename(form.querySelector("input")!.value.trim() || null);
  return (
    <form id="rename-form" method="dialog" onSubmit={submit}>
      <h2 id="rename-title">{t("Rename this session")}</h2>
      <label class="hidden" for="rename-text">{t("Title")}</label>
      <input id="rename-text" defaultValue={title} maxLength={200} autocomplete="off" placeholder={t("Empty: the agent chooses the title")} />
      <div class="row"><button type="button" onClick={close}>{t("Cancel")}</button><button type="submit" class="main">{t("Rename")}</button></div>
    </form>
  );
}

/** Asks whether a session shall be deleted, and deletes it. */
export function askDelete(managing: Managing, key: string, title: string | null | undefined): void {
  const name = called({ title: title ?? null, key });
  openDialog("delete", (close) => <Delete name={name} close={close} remove={() => void changeSession(managing, "DELETE", at(key))} />);
}

function Delete({ name, close, remove }: { name: string; close: () => void; remove: () => void }) {
  return (
    <form id="delete-form" method="dialog" onSubmit={remove}>
      <h2 id="delete-title">{t("Delete “{name}”?", { name })}</h2>
      <p>{t("Its content is erased for good. A running turn is stopped. What has not left for a chat yet still leaves.")}</p>
      <div class="row"><button type="button" autofocus onClick={close}>{t("Keep it")}</button><button type="submit" class="danger">{t("Delete")}</button></div>
    </form>
  );
}

/** The address under which a session is saved in a format: "html", "md" or "jsonl". */
export const exportOf = (key: string, format: string): string => at(key, `/export?format=${format}`);
