// The menu of the open session: rename, new chapter, save, archive, delete.

import { ask, at } from "./api.ts";
import { byId, called, freshId, say, show } from "./dom.js";

export class Manage {
  /** opened() returns the open {key, view}; problem(error) shows an error; changed() reloads the list of sessions. */
  constructor({ opened, problem, changed }) {
    this.opened = opened;
    this.problem = problem;
    this.changed = changed;
    this.menu = byId("manage");
    byId("do-rename").addEventListener("click", () => this.rename());
    byId("do-chapter").addEventListener("click", () => this.act("POST", "/chapter", { id: freshId() }));
    byId("do-archive").addEventListener("click", () => this.act("PATCH", "", { archived: !this.archived }));
    for (const format of ["html", "md"]) byId(`do-${format}`).addEventListener("click", () => this.menu.hidePopover());
    byId("do-delete").addEventListener("click", () => this.remove());
    byId("rename-form").addEventListener("submit", () => this.renamed());
    byId("delete-form").addEventListener("submit", () => this.act("DELETE", ""));
    for (const button of document.querySelectorAll("dialog [data-close]")) {
      button.addEventListener("click", () => button.closest("dialog").close());
    }
  }

  draw(key, session, fresh) {
    show(byId("manage-button"), Boolean(key) && !fresh);
    for (const format of ["html", "md"]) byId(`do-${format}`).href = key ? at(key, `/export?format=${format}`) : "";
    this.archived = Boolean(session.archived);
    say(byId("do-archive"), this.archived ? "Bring back to the list" : "Archive");
  }

  async act(method, rest, body) {
    this.menu.hidePopover();
    const { key } = this.opened();
    try {
      await ask(method, at(key, rest), body);
    } catch (error) {
      this.problem(error);
    }
    this.changed();
  }

  rename() {
    this.menu.hidePopover();
    const { view } = this.opened();
    byId("rename-text").value = view.session.value.title || "";
    byId("rename").showModal();
    byId("rename-text").select();
  }

  renamed() {
    return this.act("PATCH", "", { title: byId("rename-text").value.trim() || null });
  }

  remove() {
    this.menu.hidePopover();
    const { key, view } = this.opened();
    say(byId("delete-what"), called({ title: view.session.value.title, key }));
    byId("delete").showModal();
  }
}
