// Search: the box above the list of sessions. The results replace that list; each is a link to its message.

import { ask, messageOf, Problem } from "./api.ts";
import type { SearchPage } from "./wire.ts";
import { bindKeys } from "./keys.ts";
import { byId, inputById, say, show } from "./dom.ts";
import { loadLater } from "./on_demand.ts";
import { t } from "./texts.ts";

const PAUSE = 200;
const SEARCH = t("In the search");

export class Find {
  private leave: () => void;
  private results: typeof import("./found.ts") | undefined; // loaded with the first search
  private box = inputById("search-text");
  private list = byId("found");
  private asked = "";
  private turn = 0;
  private key: string | null = null;
  private next: string | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;

  /** leave() is called when a result is chosen. */
  constructor(leave: () => void) {
    this.leave = leave;
    this.box.addEventListener("input", () => this.soon());
    byId("search").addEventListener("submit", (event) => {
      event.preventDefault();
      void this.now();
    });
    bindKeys(byId("side"), SEARCH, [
      { key: "ArrowDown", does: t("To the results, and through them"), press: () => this.isSearching() && this.move(this.place() + 1) },
      { key: "ArrowUp", does: t("To the result above"), press: () => this.isSearching() && this.place() >= 0 && this.move(this.place() - 1) },
      { key: "Escape", does: t("Back to the box; there, leave the search"), press: () => this.isSearching() && this.back() },
    ]);
    byId("found-more").addEventListener("click", () => this.more());
    byId("found-here").addEventListener("change", () => this.now());
    bindKeys(document, t("Everywhere"), [{ key: "Ctrl+K", does: t("Search messages"), press: () => this.begin() }]);
  }

  private begin(): true {
    byId("side").dispatchEvent(new Event("wanted"));
    this.box.focus();
    this.box.select();
    return true;
  }

  select(key: string): void {
    this.key = key;
    if (inputById("found-here").checked && this.asked) void this.now();
  }

  private isSearching(): boolean {
    return this.box.value !== "" && [this.box, ...this.list.querySelectorAll("a")].includes(document.activeElement as HTMLInputElement);
  }

  private back(): true {
    if (document.activeElement !== this.box) this.box.focus();
    else {
      this.box.value = "";
      void this.now();
    }
    return true;
  }

  private soon(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.now(), this.box.value.trim() ? PAUSE : 0);
  }

  private async now(): Promise<void> {
    clearTimeout(this.timer);
    this.asked = this.box.value.trim();
    const turn = ++this.turn;
    document.body.classList.toggle("searching", this.asked !== "");
    if (!this.asked) return this.list.replaceChildren();
    const page = await this.ask(turn);
    if (!page) return;
    this.list.replaceChildren();
    this.add(page);
    this.list.scrollTop = 0;
  }

  private async more(): Promise<void> {
    const turn = this.turn;
    const page = await this.ask(turn, this.next);
    if (page) this.add(page);
  }

  private async ask(turn: number, after?: string | null): Promise<SearchPage | null> {
    try {
      this.results = await loadLater();
      const query = new URLSearchParams({ q: this.results.queryOf(this.asked), limit: "30" });
      if (after) query.set("after", after);
      if (inputById("found-here").checked && this.key) query.set("session", this.key);
      const page = await ask<SearchPage>("GET", `/v1/search?${query}`);
      return turn === this.turn ? page : null; // null: the query has changed since
    } catch (error) {
      if (turn !== this.turn) return null;
      this.list.replaceChildren();
      show(byId("found-more"), false);
      say(byId("found-told"), error instanceof Problem && error.field === "q" ? t("Type a word to search for.") : messageOf(error));
      return null;
    }
  }

  private add(page: SearchPage): void {
    this.list.append(...page.hits.map((hit) => this.results!.hitRow(hit, this.leave)));
    this.next = page.next;
    show(byId("found-more"), page.next !== null);
    say(byId("found-told"), this.results!.foundText(page, this.list.children.length));
  }

  private place(): number {
    return [...this.list.querySelectorAll("a")].indexOf(document.activeElement as HTMLAnchorElement);
  }

  private move(place: number): true {
    const links = this.list.querySelectorAll("a");
    if (place < 0) this.box.focus();
    else links[Math.min(place, links.length - 1)]?.focus();
    return true;
  }
}
