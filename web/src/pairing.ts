// A pairing code: created here, shown once, and followed until it is used, void or expired.

import { ask } from "./api.ts";
import type { ChannelState, PairingCode, Person } from "./wire.ts";
import { byId, clock, h, plainly, say, show } from "./dom.ts";
import { t } from "./texts.ts";

export class Pairing {
  private wrong: (error: unknown) => void;
  private made: () => void;
  private form = byId<HTMLFormElement>("pair");
  private code: PairingCode | null = null;
  private names = "";
  private timer: ReturnType<typeof setInterval> | undefined;

  /** wrong(error) shows an error (null removes it); made() is called after a code was created, to reload the lists. */
  constructor(wrong: (error: unknown) => void, made: () => void) {
    this.wrong = wrong;
    this.made = made;
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.make();
    });
    byId("code-copy").addEventListener("click", async () => {
      await navigator.clipboard.writeText(this.code?.code ?? "");
      say(byId("code-copy"), t("Copied"));
    });
  }

  private async make(): Promise<void> {
    const told: Record<string, string> = { channel: byId<HTMLSelectElement>("pair-channel").value };
    const name = byId<HTMLInputElement>("pair-name").value.trim();
    const role = byId<HTMLSelectElement>("pair-role").value;
    if (name) told.name = name;
    if (role) told.role = role;
    byId<HTMLButtonElement>("pair-make").disabled = true;
    try {
      this.code = await ask<PairingCode>("POST", "/v1/people/codes", told);
      this.wrong(null);
      this.show(this.code);
      this.made();
    } catch (error) {
      this.wrong(error);
    } finally {
      byId<HTMLButtonElement>("pair-make").disabled = false;
    }
  }

  private show({ code, channel, name, role }: PairingCode): void {
    say(byId("code-text"), code);
    say(byId("code-copy"), t("Copy"));
    show(byId("code-copy"), Boolean(navigator.clipboard));
    const who = name ?? t("The person to let in");
    say(byId("code-how"), t("{who} sends this code to the gateway's account on {channel}, in a private chat and with nothing else in the message. It gives the role {role}.", { who, channel, role }));
    byId("code").dataset.state = "open";
    show(byId("code"), true);
    this.tick();
    byId("code-text").focus();
    clearInterval(this.timer);
    this.timer = setInterval(() => this.tick(), 1000);
  }

  private tick(): void {
    if (!this.code) return;
    const seconds = Math.ceil((this.code.expires - Date.now()) / 1000);
    if (seconds <= 0) return this.over("expired", t("It has expired. Make another one."));
    say(byId("code-left"), t("It is shown only here and now, works once, and expires in {time}.", { time: `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}` }));
  }

  private over(state: string, told: string): void {
    clearInterval(this.timer);
    this.code = null;
    byId("code").dataset.state = state;
    say(byId("code-text"), ""); // the code is not shown again
    say(byId("code-over"), told);
    show(byId("code"), state !== "");
  }

  /** Called when the dialog closes. The code is not shown again. */
  forget(): void {
    this.over("", "");
  }

  draw(channels: ChannelState[], people: Person[], codes: PairingCode[]): void {
    const names = channels.map((one) => one.name);
    const select = byId("pair-channel");
    if (JSON.stringify(names) !== this.names) {
      this.names = JSON.stringify(names);
      select.replaceChildren(...names.map((name) => h("option", { value: name }, name)));
    }
    show(this.form, names.length > 0);
    byId("pair-names").replaceChildren(...people.map((one) => h("option", { value: one.name })));
    this.watch(codes);
    const waiting = codes.filter((one) => one.state === "open" && !this.mine(one));
    say(byId("pair-open"), waiting.map((one) => t("A code for {name} ({role}) on {channel} waits to be sent, until {when}.", { name: one.name ?? t("somebody"), role: one.role, channel: one.channel, when: clock(one.expires) })).join("\n"));
  }

  private mine(one: PairingCode): boolean {
    return this.code !== null && one.channel === this.code.channel && one.expires === this.code.expires;
  }

  private watch(codes: PairingCode[]): void {
    const mine = codes.find((one) => this.mine(one));
    if (mine?.state === "used") this.over("used", t("It was used: {account} may talk now.", { account: plainly(mine.account) }));
    if (mine?.state === "void") this.over("void", t("It was sent where others could read it, and is void. Make another one."));
  }
}
