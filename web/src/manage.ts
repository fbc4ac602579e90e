// The menu of the open session: rename, new chapter, save, archive, delete. The list's menus use its dialog for a title.

import { ask, at } from "./api.ts";
import { byId, called, dialogById, freshId, inputById, say, show } from "./dom.ts";
import type { OpenSession } from "./open_session.ts";
import type { SessionState } from "./wire.ts";
import { t } from "./texts.ts";

interface ManageProps {
  opened: () => OpenSession;
  problem: (error: unknown) => void;
  changed: () => void;
}

const FORMATS = ["html", "md", "jsonl"];

export class Manage {
  private props: ManageProps;
  private menu = byId("manage");
  private archived = false;
  private renames = ""; // the key of the session of which the dialog asks the title

  /** opened() returns the open {key, view}; problem(error) shows an error; changed() reloads the list of sessions. */
  constructor(props: ManageProps) {
    this.props = props;
    byId("do-rename").addEventListener("click", () => {
      const { key, view } = this.props.opened();
      this.rename(key!, view.session.value.title);
    });
    byId("do-chapter").addEventListener("click", () => this.act("POST", "/chapter", { id: freshId() }));
    byId("do-archive").addEventListener("click", () => this.act("PATCH", "", { archived: !this.archived }));
    for (const format of FORMATS) byId(`do-${format}`).addEventListener("click", () => this.menu.hidePopover());
    byId("do-delete").addEventListener("click", () => this.remove());
    byId("rename-form").addEventListener("submit", () => this.renamed());
    byId("delete-form").addEventListener("submit", () => this.act("DELETE", ""));
    for (const button of document.querySelectorAll<HTMLElement>("dialog [data-close]")) {
      button.addEventListener("click", () => button.closest("dialog")!.close());
    }
  }

  draw(key: string | null, session: SessionState, fresh: boolean): void {
    show(byId("manage-button"), Boolean(key) && !fresh);
    for (const format of FORMATS) byId<HTMLAnchorElement>(`do-${format}`).href = key ? at(key, `/export?format=${format}`) : "";
    this.archived = Boolean(session.archived);
    say(byId("do-archive"), this.archived ? t("Bring back to the list") : t("Archive"));
  }

  /** Changes the open session, or that of `key`. Shows why it could not be changed. */
  async act(method: string, rest: string, body?: unknown, key = this.props.opened().key!): Promise<void> {
    this.menu.hidePopover();
    try {
      await ask(method, at(key, rest), body);
    } catch (error) {
      this.props.problem(error);
    }
    this.props.changed();
  }

  /** Asks for a session's title. */
  rename(key: string, title: string | null | undefined): void {
    this.menu.hidePopover();
    this.renames = key;
    inputById("rename-text").value = title || "";
    dialogById("rename").showModal();
    inputById("rename-text").select();
  }

  private renamed(): Promise<void> {
    return this.act("PATCH", "", { title: inputById("rename-text").value.trim() || null }, this.renames);
  }

  private remove(): void {
    this.menu.hidePopover();
    const { key, view } = this.props.opened();
    say(byId("delete-what"), called({ title: view.session.value.title, key: key! }));
    dialogById("delete").showModal();
  }
}
