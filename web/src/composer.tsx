// The message box: the draft, the files that go with it, and the menu of commands. Each session has its own draft, which
// no update of the view changes (Law 8).

import { signal } from "@preact/signals";
import { render } from "preact";
import type { CommandMenu } from "./command_menu.tsx";
import type { Command } from "./commands.ts";
import { keepHere, kept, keptHere } from "./kept.ts";
import { bindKeys } from "./keys.ts";
import { plainly } from "./text.ts";
import { type Upload, Uploads } from "./uploads.ts";
import type { FileRef } from "./wire.ts";
import { t } from "./texts.ts";

export type SendMessage = (text: string, files: FileRef[]) => void;

export class Composer {
  readonly text: HTMLTextAreaElement;
  private form: HTMLFormElement;
  private key: string | null = null;
  private send: SendMessage;
  private uploads = new Uploads();
  private menu: Promise<CommandMenu> | null = null;
  private openMenu: CommandMenu | null = null; // as soon as it is loaded
  private waits = signal(false); // the message leaves as soon as its files are uploaded

  constructor(send: SendMessage) {
    this.send = send;
    this.form = document.querySelector("#composer")!;
    this.text = document.querySelector("#text")!;
    render(<Files uploads={this.uploads} waits={this.waits} />, document.querySelector("#files")!);
    this.uploads.list.subscribe(() => this.waits.peek() && !this.uploads.isBusy() && this.uploaded());
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    this.text.addEventListener("input", () => this.changed());
    this.text.addEventListener("blur", () => this.openMenu?.close());
    bindKeys(this.text, t("In the message box"), [
      { key: "Enter", does: t("Send the message, or take the command that is chosen"), press: (event) => this.choose(event) || this.enter() },
      { key: "Ctrl+Enter", does: t("Send the message"), press: () => (this.form.requestSubmit(), true) },
      { key: "Shift+Enter", does: t("Begin a line"), press: () => false },
      { key: "/", does: t("List the commands, at the beginning"), press: () => false },
      { key: "ArrowDown", does: t("Choose the next command"), press: (event) => this.choose(event) },
      { key: "ArrowUp", does: t("Choose the one above"), press: (event) => this.choose(event) },
      { key: "Tab", does: t("Take the command that is chosen"), press: (event) => this.choose(event) },
      { key: "Escape", does: t("Close the list of commands; without one, stop the running turn"), press: (event) => this.choose(event) || this.stop() },
    ]);
    this.takeFiles();
  }

  private submit(): void {
    const text = this.text.value;
    if (!this.key || (!text.trim() && !this.uploads.list.peek().length)) return;
    this.waits.value = this.uploads.isBusy();
    if (this.waits.peek()) return;
    const files = this.uploads.take();
    if (!text.trim() && !files.length) return;
    this.put("");
    this.send(text, files);
    this.text.focus();
  }

  /** Sends the message that waited for its files. If one of them failed, the message stays for the person to decide. */
  private uploaded(): void {
    if (this.uploads.hasFailed()) this.waits.value = false;
    else this.submit();
  }

  private enter(): boolean {
    if (matchMedia("(pointer: coarse) and (hover: none)").matches) return false; // a phone has no Shift+Enter
    this.form.requestSubmit();
    return true;
  }

  private stop(): boolean {
    const button = document.querySelector<HTMLButtonElement>("#stop")!;
    if (button.hidden) return false;
    button.click();
    return true;
  }

  /** Files come from the picker, by drag and drop, or are pasted. */
  private takeFiles(): void {
    const picker = document.querySelector<HTMLInputElement>("#file-input")!;
    document.querySelector("#attach")!.addEventListener("click", () => picker.click());
    picker.addEventListener("change", () => {
      this.uploads.add(picker.files ?? []);
      picker.value = "";
      this.text.focus();
    });
    this.text.addEventListener("paste", (event) => {
      const files = event.clipboardData?.files;
      if (!files?.length) return;
      event.preventDefault();
      this.uploads.add(files);
    });
    const main = document.querySelector("main")!;
    const hasFiles = (event: DragEvent) => event.dataTransfer?.types.includes("Files");
    main.addEventListener("dragover", (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      main.classList.add("dropping");
    });
    main.addEventListener("dragleave", (event) => !main.contains(event.relatedTarget as Node) && main.classList.remove("dropping"));
    main.addEventListener("drop", (event) => {
      main.classList.remove("dropping");
      if (!hasFiles(event)) return;
      event.preventDefault();
      this.uploads.add(event.dataTransfer!.files);
      this.text.focus();
    });
  }

  select(key: string): void {
    this.key = key;
    this.waits.value = false;
    this.uploads.select(key);
    this.openMenu?.select(key);
    this.text.value = keptHere(`draft.${key}`) ?? kept(`draft.${key}`, "");
    this.grow();
  }

  private put(text: string): void {
    this.text.value = text;
    this.changed();
  }

  /** Puts a text back into the box, before what is being written there. */
  restore(text: string): void {
    this.put(this.text.value ? `${text}\n${this.text.value}` : text);
    this.text.focus();
  }

  private complete(command: Command): void {
    this.put(command.takes === "nothing" ? command.text : `${command.text} `);
    this.openMenu?.close();
    this.text.focus();
  }

  private changed(): void {
    if (this.key) keepHere(`draft.${this.key}`, this.text.value);
    void this.listCommands();
    this.grow();
  }

  /** Lists the commands that begin with what is written. Without a connection, the next sign tries again. */
  private async listCommands(): Promise<void> {
    if (!this.menu && !this.text.value.startsWith("/")) return;
    this.menu ??= this.loadMenu();
    try {
      await (await this.menu).look(this.text.value);
    } catch {
      this.menu = null;
    }
  }

  private async loadMenu(): Promise<CommandMenu> {
    const { openCommandMenu } = await import("./later.ts");
    this.openMenu = openCommandMenu(document.querySelector("#commands")!, this.text, (command) => this.complete(command));
    this.openMenu.select(this.key ?? "");
    return this.openMenu;
  }

  /** Whether a key was meant for the list of commands. */
  private choose(event: KeyboardEvent): boolean {
    return this.openMenu?.press(event, this.text.value) ?? false;
  }

  private grow(): void {
    this.text.style.height = "auto";
    this.text.style.height = `${Math.min(this.text.scrollHeight + 2, innerHeight * 0.4)}px`;
  }
}

// ---------------------------------------------------------------- files

function Files({ uploads, waits }: { uploads: Uploads; waits: { value: boolean } }) {
  const list = uploads.list.value;
  if (!list.length) return null;
  return (
    <>
      <ul aria-label={t("Files of the message")}>
        {list.map((one) => (
          <li key={one.place} class="upload" data-state={one.state}>
            <span class="name">{plainly(one.name)}</span>
            <span class="told" role="status">{toldOf(one)}</span>
            {one.state === "uploading" ? <progress value={one.progress} max={1} aria-label={t("Upload of {name}", { name: plainly(one.name) })} /> : null}
            {one.state === "failed" ? <button type="button" class="tiny" onClick={one.again}>{t("Again")}</button> : null}
            <button type="button" class="tiny" aria-label={t("Remove {name}", { name: plainly(one.name) })} onClick={() => uploads.remove(one)}>
              <svg class="glyph" viewBox="0 0 20 20" aria-hidden="true"><path d="M5 5l10 10M15 5L5 15" /></svg>
            </button>
          </li>
        ))}
      </ul>
      {waits.value ? <p class="waiting" role="status">{t("The message is sent when its files are uploaded.")}</p> : null}
    </>
  );
}

function toldOf(upload: Upload): string {
  if (upload.state === "failed") return t("not uploaded: {why}", { why: upload.why ?? "" });
  return upload.state === "uploading" ? `${Math.round(100 * upload.progress)} %` : "";
}
