// The frame of a dialog that components draw.

import { type ComponentChildren, type VNode, render } from "preact";
import { t } from "./texts.ts";

/**
 * Opens a dialog over the page, which `draw` draws. It leaves the document as it closes, with all that it held, and the
 * browser gives the focus back. One that is open already stays as it is: a second click came before the first had an
 * effect. `name`: its label, if no heading with the id `ID-title` is one.
 */
export function openDialog(id: string, draw: (close: () => void) => VNode, name?: string): HTMLDialogElement {
  const opened = document.querySelector<HTMLDialogElement>(`dialog#${id}[open]`);
  if (opened) return opened;
  const dialog = document.createElement("dialog");
  dialog.id = id;
  if (name) dialog.setAttribute("aria-label", name);
  else dialog.setAttribute("aria-labelledby", `${id}-title`);
  dialog.addEventListener("close", () => {
    render(null, dialog);
    dialog.remove();
  });
  document.body.append(dialog);
  render(draw(() => dialog.close()), dialog);
  dialog.showModal();
  return dialog;
}

interface ListsProps {
  id: string;
  title: string;
  close: () => void;
  /** What is told below the lists. */
  foot?: ComponentChildren;
  children: ComponentChildren;
}

/** Opens a dialog of lists: its title and a button that closes it stay in sight. */
export function openLists(id: string, draw: (close: () => void) => VNode): HTMLDialogElement {
  const dialog = openDialog(id, draw);
  dialog.className = "lists";
  return dialog;
}

export function Lists({ id, title, close, foot, children }: ListsProps) {
  return (
    <>
      <header>
        <h2 id={`${id}-title`} tabIndex={-1} autofocus>{title}</h2>
        <CloseButton close={close} />
      </header>
      <div class="lists-body" tabIndex={0}>{children}</div>
      <footer>{foot}</footer>
    </>
  );
}

export const CloseButton = ({ close, id }: { close: () => void; id?: string }) => (
  <button id={id} type="button" class="quiet icon" aria-label={t("Close")} onClick={close}><Glyph path="M5 5l10 10M15 5L5 15" /></button>
);

export const Glyph = ({ path }: { path: string }) => <svg class="glyph" viewBox="0 0 20 20" aria-hidden="true"><path d={path} /></svg>;
