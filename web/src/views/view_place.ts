// The place of the views beside the conversation: what needs somebody, and the gateway. The address names the view. Their
// code and their style come with the first one that is shown.

import { computed, effect, signal } from "@preact/signals";
import { messageOf } from "../api.ts";
import { byId, say, show } from "../dom.ts";
import type { RowMenuProps } from "../row_menu.ts";
import type { SessionList } from "../session_list.ts";
import { t } from "../texts.ts";
import type { ListedSession } from "../wire.ts";
import { type ViewAddress, titleOf, viewOf } from "./address.ts";

export class ViewPlace {
  /** The view that is shown; null: the conversation is. */
  readonly shown = signal<ViewAddress | null>(null);
  readonly title = computed(() => (this.shown.value ? titleOf(this.shown.value) : null));
  private drawn = false;
  private list: SessionList;
  private back: () => void;

  /** back() leaves the view for the conversation. */
  constructor(list: SessionList, back: () => void) {
    this.list = list;
    this.back = back;
    effect(() => {
      const count = list.needed.value;
      say(byId("needs-here"), String(count));
      byId("needs-here").setAttribute("aria-label", t("Needs you: {count}", { count }));
      show(byId("needs-here"), count > 0);
    });
  }

  /** Shows the view that the page's address names. Returns whether it names one; if not, the conversation is shown. */
  route(): boolean {
    const address = viewOf(location.hash);
    this.shown.value = address;
    byId("view").hidden = !address;
    if (address) document.body.dataset.view = address.view;
    else delete document.body.dataset.view;
    if (address) void this.draw();
    return address !== null;
  }

  /** Shows why a message is what it is: the story of what `ref` names. */
  async openStory(ref: string): Promise<void> {
    const [{ openStory }] = await load();
    await openStory(ref);
  }

  /** Opens the dialog "People and channels". */
  async openPeople(): Promise<void> {
    const [{ openPeople }] = await load();
    openPeople();
  }

  /** Opens the menu of a session in the list, beside a node of its row. */
  async openRowMenu(beside: HTMLElement, session: ListedSession, props: RowMenuProps): Promise<void> {
    const [{ openRowMenu }] = await load();
    openRowMenu(beside, session, props);
  }

  private async draw(): Promise<void> {
    if (this.drawn) return;
    this.drawn = true;
    try {
      const [{ drawViews }] = await load();
      byId("view").replaceChildren();
      drawViews(byId("view"), { shown: this.shown, list: this.list, back: this.back });
    } catch (error) {
      this.drawn = false; // the next look tries again
      say(byId("view"), t("This could not be loaded: {why}. Load the page again.", { why: messageOf(error) }));
    }
  }
}

const load = () => Promise.all([import("../later.ts"), loadStyle()]);

let style: Promise<void> | undefined;

/** Loads the style sheet of the views, and of what else is shown on demand. */
function loadStyle(): Promise<void> {
  const link = byId<HTMLLinkElement>("views-style");
  style ??= new Promise((loaded, failed) => {
    link.addEventListener("load", () => loaded(), { once: true });
    link.addEventListener("error", () => failed(new Error(t("no connection"))), { once: true });
    link.disabled = false; // the browser fetches it now
  });
  return style.catch((error) => {
    style = undefined;
    link.disabled = true;
    throw error;
  });
}
