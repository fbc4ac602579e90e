// The message box: the draft, the files that go with it, and the menu of commands. Each session has its own draft, which
// no update of the view changes (Law 8). While an earlier message is edited there, the draft is laid aside.

import { type Signal, signal } from "@preact/signals";
import { render } from "preact";
import type { CommandMenu } from "./command_menu.tsx";
import type { Command } from "./commands.ts";
import { keepHere, kept, keptHere } from "./kept.ts";
import { bindKeys, isCovered } from "./keys.ts";
import { loadLater } from "./on_demand.ts";
import { clock, plainly } from "./text.ts";
import { type Upload, Uploads, uploadOf } from "./uploads.ts";
import type { FileRef } from "./wire.ts";
import { t } from "./texts.ts";

export type SendMessage = (text: string, files: FileRef[]) => void;

interface ComposerProps {
  send: SendMessage;
  /** Edits the person's last message. Returns whether there is one. */
  editLast: () => boolean;
}

/** A message that is edited in the box. */
interface Edited {
  /** When it was sent, in ms. */
  at: number;
  /** What was in the box before. */
  draft: string;
  files: FileRef[];
}

export class Composer {
  readonly text: HTMLTextAreaElement;
  private form: HTMLFormElement;
  private key: string | null = null;
  private props: ComposerProps;
  private edited = signal<Edited | null>(null);
  private uploads = new Uploads();
  private menu: Promise<CommandMenu> | null = null;
  private openMenu: CommandMenu | null = null; // as soon as it is loaded
  private waits = signal(false); // the message leaves as soon as its files are uploaded

  constructor(props: ComposerProps) {
    this.props = props;
    this.form = document.querySelector("#composer")!;
    this.text = document.querySelector("#text")!;
    render([<EditedNote edited={this.edited} leave={() => this.leaveEdit()} />, <Files uploads={this.uploads} waits={this.waits} />], document.querySelector("#files")!);
    this.uploads.list.subscribe(() => this.waits.peek() && !this.uploads.isBusy() && this.uploaded());
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    this.text.addEventListener("input", () => this.changed());
    this.text.addEventListener("blur", () => this.openMenu?.close());
    bindKeys(this.text, t("In the message box"), [
      { key: "Enter", does: t("Send the message, or take the command or file that is chosen"), press: (event) => this.choose(event) || this.enter() },
      { key: "Ctrl+Enter", does: t("Send the message"), press: () => (this.form.requestSubmit(), true) },
      { key: "Shift+Enter", does: t("Begin a line"), press: () => false },
      { key: "/", does: t("List the commands, at the beginning"), press: () => false },
      { key: "@", does: t("List the files of the agent's workspace"), press: () => false },
      { key: "ArrowDown", does: t("Choose the next command or file"), press: (event) => this.choose(event) },
      { key: "ArrowUp", does: t("Choose the one above; in an empty box, edit your last message"), press: (event) => this.choose(event) || this.editLast() },
      { key: "Tab", does: t("Take the command or file that is chosen"), press: (event) => this.choose(event) },
      { key: "Escape", does: t("Close the list of commands or files, else leave the message that is edited, else stop the running turn"), press: (event) => this.choose(event) || this.leaveEdit() || this.stop() },
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
    this.leaveEdit();
    this.props.send(text, files);
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

  /** Takes the focus, unless that would open a phone's keyboard. */
  takeFocus(): void {
    if (!matchMedia("(pointer: coarse)").matches) this.text.focus({ preventScroll: true });
  }

  /** Takes the focus if it went with the buttons of a request; not from a dialog, a field, or another button. */
  takeLostFocus(): void {
    const focused = document.activeElement ?? document.body;
    const isInRow = focused.closest("#log") !== null && !focused.matches("button:enabled, a, input, textarea");
    if ((isInRow || focused === document.body) && !isCovered()) this.takeFocus();
  }

  select(key: string): void {
    this.key = key;
    this.waits.value = false;
    this.uploads.select(key);
    this.openMenu?.select(key);
    this.text.value = keptHere(`draft.${key}`) ?? kept(`draft.${key}`, "");
    this.edited.value = JSON.parse((keptHere(`edited.${key}`) ?? kept(`edited.${key}`, "")) || "null") as Edited | null;
    this.grow();
  }

  private put(text: string): void {
    this.text.value = text;
    this.changed();
  }

  /** Puts a text and its files back into the box, before what is being written there. */
  restore(text: string, files: FileRef[] = []): void {
    this.put(this.text.value ? `${text}\n${this.text.value}` : text);
    this.uploads.put([...files.map(uploadOf), ...this.uploads.list.peek()]);
    this.text.focus();
  }

  /** Quotes a text below what is being written; the caret is in the line after it. */
  quote(text: string): void {
    const lines = text.trim().split("\n").map((line) => `> ${line}`.trimEnd());
    const before = this.text.value.trimEnd();
    this.put(`${before && `${before}\n\n`}${lines.join("\n")}\n\n`);
    this.text.focus();
  }

  /** Lays the draft aside and puts the text of a message into the box, to be sent again as a new one. */
  edit(text: string, files: FileRef[], at: number): void {
    const draft = this.edited.peek()?.draft ?? this.text.value;
    const taken = this.uploads.swap(files);
    this.keepEdited({ at, draft, files: this.edited.peek()?.files ?? taken });
    this.put(`${HEAD(clock(at))}\n\n${withoutHead(text)}`);
    this.text.focus();
  }

  /** Puts the draft back that was laid aside. Returns whether a message was edited. */
  private leaveEdit(): boolean {
    const edited = this.edited.peek();
    if (!edited) return false;
    this.keepEdited(null);
    this.put(edited.draft);
    this.uploads.swap(edited.files);
    this.text.focus();
    return true;
  }

  private keepEdited(edited: Edited | null): void {
    this.edited.value = edited;
    keepHere(`edited.${this.key}`, edited ? JSON.stringify(edited) : "");
  }

  private editLast(): boolean {
    return this.key !== null && !this.text.value && !this.uploads.list.peek().length && this.props.editLast();
  }

  private complete(command: Command): void {
    if (command.by === "workspace") this.completeFile(command.text);
    else this.put(command.takes === "nothing" ? command.text : `${command.text} `);
    this.openMenu?.close();
    this.text.focus();
  }

  /** Puts a file's path in the place of what was begun of it, before the caret. */
  private completeFile(path: string): void {
    const { value, selectionStart } = this.text;
    const before = `${value.slice(0, value.lastIndexOf("@", selectionStart - 1))}${path} `;
    this.put(before + value.slice(selectionStart));
    this.text.setSelectionRange(before.length, before.length);
  }

  private changed(): void {
    if (this.key) keepHere(`draft.${this.key}`, this.text.value);
    void this.listCommands();
    this.grow();
  }

  /** Lists the commands or files that fit what is written. Without a connection, the next sign tries again. */
  private async listCommands(): Promise<void> {
    if (!this.menu && !/^\/|@/.test(this.text.value)) return;
    this.menu ??= this.loadMenu();
    try {
      await (await this.menu).look(this.text.value);
    } catch {
      this.menu = null;
    }
  }

  private async loadMenu(): Promise<CommandMenu> {
    const { openCommandMenu } = await loadLater();
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

// ---------------------------------------------------------------- an edited message

// The line is in the box, where the person sees it and may change it: no word of the page's is sent as theirs (Law 4).
const HEAD = (time: string): string => t("Instead of my message of {time}:", { time });

/** A text without the line that an edit before put in front of it. */
function withoutHead(text: string): string {
  const [start = "", end = ""] = HEAD("\0").split("\0");
  const body = text.indexOf(`${end}\n\n`);
  return text.startsWith(start) && body > 0 && !text.slice(0, body).includes("\n") ? text.slice(body + end.length + 2) : text;
}

function EditedNote({ edited, leave }: { edited: Signal<Edited | null>; leave: () => void }) {
  if (!edited.value) return null;
  return (
    <p class="waiting">
      <span role="status">{t("Edits your message of {time}. The gateway has that one: this becomes a new one.", { time: clock(edited.value.at) })}</span>{" "}
      <button type="button" class="tiny" title={t("Put back what was in the box before (Esc)")} onClick={leave}>{t("Cancel")}</button>
    </p>
  );
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
