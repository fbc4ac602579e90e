// The menu of the open session, at its head. It is loaded when it is opened for the first time, and stays in the document:
// from then on the browser opens and closes it.

import type { ReadonlySignal } from "@preact/signals";
import { render } from "preact";
import { at } from "./api.ts";
import { byId, freshId, h } from "./dom.ts";
import { Choices, type Shown } from "./header.tsx";
import { type Managing, askDelete, askTitle, changeSession, exportOf } from "./manage.tsx";
import { plainly } from "./text.ts";
import { t } from "./texts.ts";

interface SessionMenuProps {
  shown: ReadonlySignal<Shown | null>;
  /** Starts another new session with an agent. */
  begin: (agent: string) => void;
  managing: Managing;
}

/** Puts the menu below its button and opens it. */
export function openSessionMenu(props: SessionMenuProps): void {
  const menu = h("div", { id: "manage", popover: "auto" });
  byId("manage-button").after(menu);
  menu.addEventListener("focusout", ({ relatedTarget: next }) => {
    if (next instanceof Element && !menu.contains(next) && next.id !== "manage-button") menu.hidePopover();
  });
  render(<SessionMenu {...props} leave={() => menu.hidePopover()} />, menu);
  menu.showPopover();
}

function SessionMenu({ shown, begin, managing, leave }: SessionMenuProps & { leave: () => void }) {
  if (!shown.value) return null;
  const { key, view } = shown.value;
  const { title, archived } = view.session.value;
  const act = (does: () => unknown) => () => {
    leave();
    void does();
  };
  const change = (method: string, path: string, body?: unknown) => act(() => changeSession(managing, method, path, body));
  const chapter = t("The agent forgets what was said so far; the transcript stays");
  return (
    <>
      <Choices shown={shown} inMenu begin={begin} problem={managing.problem} />
      <button id="do-rename" type="button" onClick={act(() => askTitle(managing, key, title))}>{t("Rename")}</button>
      <button id="do-chapter" type="button" title={chapter} onClick={change("POST", at(key, "/chapter"), { id: freshId() })}>{t("New chapter")}</button>
      <a id="do-html" download href={exportOf(key, "html")} onClick={leave}>{t("Save as a web page")}</a>
      <a id="do-md" download href={exportOf(key, "md")} onClick={leave}>{t("Save as Markdown")}</a>
      <a id="do-jsonl" download href={exportOf(key, "jsonl")} onClick={leave}>{t("Save as JSON lines")}</a>
      <button id="do-archive" type="button" onClick={change("PATCH", at(key), { archived: !archived })}>{archived ? t("Bring back to the list") : t("Archive")}</button>
      <button id="do-delete" type="button" class="danger" onClick={act(() => askDelete(managing, key, title))}>{t("Delete")}</button>
      <p class="key" title={t("The key of this session, for the command line and the API")}>{plainly(key)}</p>
    </>
  );
}
