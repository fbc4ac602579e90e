// What happens to a message that arrives while the agent is busy: the texts that say it, and the menu of busy modes.

import { ask, at } from "./api.ts";
import type { BusyMode, SessionState } from "./wire.ts";
import { DOES } from "./busy_texts.ts";
import { h, say, show } from "./dom.ts";
import { t } from "./texts.ts";

const ALWAYS = "always ";

/** The menu of busy modes: for the next message only, or for all messages of the session. */
export class Busy {
  private select: HTMLSelectElement;
  private problem: (error: unknown) => void;
  private usual = h("option", { value: "" }, t("as usual"));
  private byKey = false;
  private key: string | null = null;
  private session: SessionState | null = null;

  constructor(select: HTMLSelectElement, problem: (error: unknown) => void) {
    this.select = select;
    this.problem = problem;
    const options = (start: string) => Object.entries(DOES).map(([mode, what]) => h("option", { value: start + mode, title: what }, start ? t("always {mode}", { mode }) : mode));
    select.append(
      this.usual,
      h("optgroup", { label: t("This message") }, ...options("")),
      h("optgroup", { label: t("All messages here") }, ...options(ALWAYS), h("option", { value: ALWAYS }, t("as configured"))),
    );
    select.addEventListener("keydown", () => (this.byKey = true));
    select.addEventListener("pointerdown", () => (this.byKey = false));
    select.addEventListener("change", () => (this.byKey ? this.explain() : this.settle()));
    select.addEventListener("blur", () => this.settle().then(() => this.draw(this.key, this.session)));
  }

  /** Returns the mode for the message that is sent now (undefined: the session's mode), and resets the menu. */
  take(): BusyMode | undefined {
    const mode = (this.select.value.replace(ALWAYS, "") || undefined) as BusyMode | undefined;
    this.select.value = "";
    this.explain();
    return mode;
  }

  /** Saves a choice for all messages. With arrow keys, that is when the menu loses focus: they pass other options. */
  private async settle(): Promise<void> {
    const { value } = this.select;
    if (value.startsWith(ALWAYS)) {
      this.select.value = "";
      try {
        await ask("PUT", at(this.key!, "/busy"), { mode: value.slice(ALWAYS.length) || null });
      } catch (error) {
        this.problem(error);
      }
    }
    this.explain();
  }

  private explain(): void {
    const { value } = this.select;
    const own = value.startsWith(ALWAYS) ? "" : value;
    const mode = (own || value.slice(ALWAYS.length) || this.session?.busy) as BusyMode | undefined;
    const does = mode && { what: DOES[mode] };
    const what = !does ? t("as configured") : own ? t("this message: {what}", does) : t("all messages here: {what}", does);
    this.select.title = t("While the agent is busy: {what}", { what });
  }

  draw(key: string | null, session: SessionState | null): void {
    if (key !== this.key) this.select.value = "";
    this.key = key;
    this.session = session;
    if (!session) return show(this.select.parentElement!, false);
    say(this.usual, session.busy ? t("usual: {mode}", { mode: session.busy }) : t("as usual"));
    this.explain();
    const busy = session.state === "running" || session.state === "waiting" || session.busy || this.select.value;
    show(this.select.parentElement!, Boolean(busy) || document.activeElement === this.select);
  }
}
