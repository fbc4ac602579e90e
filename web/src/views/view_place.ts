// The place of the views beside the conversation: what needs somebody, and the gateway. The address names the view. Their
// code and their style come with the first one that is shown.

import { computed, effect, signal } from "@preact/signals";
import { messageOf } from "../api.ts";
import { byId, say, show } from "../dom.ts";
import { loadLater } from "../on_demand.ts";
import type { SessionList } from "../session_list.ts";
import { t } from "../texts.ts";
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

  private async draw(): Promise<void> {
    if (this.drawn) return;
    this.drawn = true;
    try {
      const { drawViews } = await loadLater();
      byId("view").replaceChildren();
      drawViews(byId("view"), { shown: this.shown, list: this.list, back: this.back });
    } catch (error) {
      this.drawn = false; // the next look tries again
      say(byId("view"), t("This could not be loaded: {why}. Load the page again.", { why: messageOf(error) }));
    }
  }
}
