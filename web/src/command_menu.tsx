// The menu over the message box: of commands, at the beginning, and of the workspace's files, after an @. It is loaded when
// the first slash or @ is written.

import { signal } from "@preact/signals";
import { render } from "preact";
import { type Command, commandBegun, commandsLike, commandsOf, fileBegun, filesLike } from "./commands.ts";
import { plainly } from "./text.ts";
import { t } from "./texts.ts";

/** Puts a menu for the box `text` into `place`. `choose` gets the command that somebody takes. */
export function openCommandMenu(place: HTMLElement, text: HTMLTextAreaElement, choose: (command: Command) => void): CommandMenu {
  const menu = new CommandMenu(choose);
  render(<CommandList menu={menu} text={text} />, place);
  return menu;
}

const PAUSE_MS = 120; // after a sign, before files are looked for

/** The commands or files that fit what is written. A key chooses one; nothing is sent by choosing. */
export class CommandMenu {
  readonly shown = signal<Command[]>([]);
  readonly at = signal(0);
  private key = "";
  private begun: string | null = null;
  private dismissed = "";
  readonly choose: (command: Command) => void;

  constructor(choose: (command: Command) => void) {
    this.choose = choose;
  }

  select(key: string): void {
    this.key = key;
    this.close();
  }

  close(): void {
    this.shown.value = [];
  }

  async look(text: string): Promise<void> {
    const box = document.querySelector<HTMLTextAreaElement>("#text")!;
    const command = commandBegun(text);
    const begun = (this.begun = command ?? fileBegun(text.slice(0, box.selectionStart)));
    if (begun === null) this.dismissed = "";
    if (begun === null || begun === this.dismissed) return this.close();
    const { key } = this;
    const isCurrent = (): boolean => key === this.key && box.value === text; // else something was written meanwhile
    if (command === null) await new Promise((passed) => setTimeout(passed, PAUSE_MS));
    if (!isCurrent()) return;
    const like = command === null ? await filesLike(begun, key) : commandsLike(begun, await commandsOf(key));
    if (!isCurrent()) return;
    this.shown.value = like.length === 1 && like[0]!.text === begun ? [] : like;
    this.at.value = 0;
  }

  /** Whether a key was meant for the menu. */
  press(event: KeyboardEvent, text: string): boolean {
    const shown = this.shown.peek();
    if (!shown.length) return false;
    const chosen = shown[this.at.peek()]!;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) this.at.value = (this.at.peek() + step + shown.length) % shown.length;
    else if (event.key === "Tab" || (event.key === "Enter" && !event.shiftKey && chosen.text !== text)) this.choose(chosen);
    else if (event.key === "Escape") [this.dismissed] = [this.begun ?? "", this.close()];
    else return false;
    return true;
  }
}

function CommandList({ menu, text }: { menu: CommandMenu; text: HTMLTextAreaElement }) {
  const shown = menu.shown.value;
  const at = menu.at.value;
  if (shown.length) text.setAttribute("aria-activedescendant", `command-${at}`);
  else text.removeAttribute("aria-activedescendant");
  if (!shown.length) return null;
  // It scrolls, so it can have the focus; the mouse leaves that in the box.
  return (
    <ul role="listbox" aria-label={shown[0]!.by === "workspace" ? t("Files of the workspace") : t("Commands")} tabIndex={0} onMouseDown={(event) => event.preventDefault()}>
      {shown.map((command, place) => (
        <li
          key={command.text}
          id={`command-${place}`}
          role="option"
          aria-selected={place === at}
          ref={place === at ? (node) => void node?.scrollIntoView({ block: "nearest" }) : undefined}
          onMouseDown={() => menu.choose(command)}
        >
          <b>{plainly(command.usage || command.text)}</b> <span>{plainly(command.description ?? "")}</span>
          {command.by === "agent" ? <small>{t("agent")}</small> : null}
        </li>
      ))}
    </ul>
  );
}
