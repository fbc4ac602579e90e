// The rows of the inbox, and what is asked of the gateway to answer them. A row that somebody answered, here or elsewhere,
// says so before it goes (Law 13: what is answered is what is shown).

import { signal } from "@preact/signals";
import { ask, at, messageOf } from "../api.ts";
import { outcomeOf } from "../rows/request.tsx";
import { freshId } from "../text.ts";
import { t } from "../texts.ts";
import type { Item, Need, Stretch } from "../wire.ts";
import { problemText } from "./polled.ts";
import { type NeedRow, UNKNOWN_END, keyOf, mergeNeeds, rowsOf } from "./needs.ts";

const GONE = t("That request is gone: this answer allowed nothing.");
const ALREADY = t("It was answered elsewhere before: this answer was not taken.");
const DECIDED: Record<string, string> = { resend: t("It is sent again."), arrived: t("You said that it arrived."), drop: t("You gave it up.") };
const TRIED = t("It is tried again.");
const LEAVES_MS = 4000;

export class InboxRows {
  /** The rows; null: the gateway has not told them yet. */
  readonly rows = signal<readonly NeedRow[] | null>(null);
  /** Why they cannot be told. */
  readonly problem = signal("");
  private retries = new Map<string, string>(); // by row: the id of its message, so that a repeated click is no second one

  async refresh(): Promise<void> {
    try {
      const { needs } = await ask<{ needs: Need[] }>("GET", "/v1/needs");
      const shown = this.rows.peek();
      const { rows, gone } = shown ? mergeNeeds(shown, needs) : { rows: rowsOf(needs), gone: [] };
      this.rows.value = rows;
      this.problem.value = "";
      for (const row of gone) void this.tellEnd(row);
    } catch (error) {
      this.problem.value = problemText(error);
    }
  }

  /** Answers a request or a question. Returns whether the gateway took the answer. */
  async answer(row: NeedRow, option: string, words: string): Promise<boolean> {
    const { session, item } = row.need;
    return this.act(row, async () => {
      const { outcome } = await ask<{ outcome: string }>("POST", at(session, "/answers"), { item: item!.id, option, seen: item!.rev });
      this.end(row.key, { answered: t("You: {words}", { words }), already: ALREADY }[outcome] ?? GONE);
    });
  }

  /** Runs a session's failed turn again, if it still is the session's last one. */
  async retry(row: NeedRow): Promise<boolean> {
    return this.act(row, async () => {
      const { needs } = await ask<{ needs: Need[] }>("GET", "/v1/needs");
      if (!needs.some((need) => keyOf(need) === row.key)) {
        return this.end(row.key, this.retries.has(row.key) ? TRIED : t("It went on elsewhere: nothing was tried again."));
      }
      const id = this.retries.get(row.key) ?? freshId();
      this.retries.set(row.key, id);
      await ask("POST", at(row.need.session, "/messages"), { text: "/retry", id });
      this.end(row.key, TRIED);
    });
  }

  /** Decides about a held part. */
  async decide(row: NeedRow, part: number, verdict: string): Promise<boolean> {
    return this.act(row, async () => {
      await ask("POST", `/v1/parts/${part}/${verdict}`, {});
      this.change(row.key, (old) => ({ ...old, parts: old.parts.filter((one) => one.id !== part) }));
      if (!this.rows.peek()?.find((one) => one.key === row.key)?.parts.length) this.end(row.key, DECIDED[verdict] ?? verdict);
    });
  }

  private async act(row: NeedRow, deed: () => Promise<void>): Promise<boolean> {
    try {
      await deed();
      return true;
    } catch (error) {
      this.change(row.key, (old) => ({ ...old, wrong: messageOf(error) }));
      void this.refresh();
      return false;
    }
  }

  /** Says how a row ended that was answered elsewhere. */
  private async tellEnd({ key, need }: NeedRow): Promise<void> {
    setTimeout(() => this.leave(key), LEAVES_MS);
    const words = need.part ? t("This was decided elsewhere.") : t("The session went on.");
    if (!need.item) return this.change(key, (old) => ({ ...old, over: old.over === UNKNOWN_END ? words : old.over }));
    const stretch = await ask<Stretch>("GET", at(need.session, `/history?limit=50&before=${Number.MAX_SAFE_INTEGER}`)).catch(() => null);
    const item = stretch?.items.find((each: Item) => each.id === need.item!.id);
    if (item && item.state !== "open") this.change(key, (old) => ({ ...old, over: outcomeOf(item) }));
  }

  /** Says how a row ended that was answered here, also if the gateway has told meanwhile that it is over. */
  private end(key: string, over: string): void {
    this.change(key, (old) => ({ ...old, over, wrong: "" }));
    setTimeout(() => this.leave(key), LEAVES_MS);
  }

  /** Takes a row away, but not under somebody's pointer: the next click would meet another row. */
  private leave(key: string): void {
    const list = document.getElementById("needs-list");
    if (matchMedia("(hover: hover)").matches && list?.matches(":hover")) return void setTimeout(() => this.leave(key), 1000);
    this.rows.value = (this.rows.peek() ?? []).filter((row) => row.key !== key);
  }

  private change(key: string, update: (row: NeedRow) => NeedRow): void {
    this.rows.value = (this.rows.peek() ?? []).map((row) => (row.key === key ? update(row) : row));
  }
}
