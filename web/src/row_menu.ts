// The menu of a session in the list: pin, rename, save, archive. It is loaded when it is opened for the first time.

import { at } from "./api.ts";
import { called, h } from "./dom.ts";
import type { Manage } from "./manage.ts";
import type { SessionList } from "./session_list.ts";
import { t } from "./texts.ts";
import type { ListedSession } from "./wire.ts";

export interface RowMenuProps {
  list: SessionList;
  manage: Manage;
}

const EDGE_PX = 8; // that stay free between the menu and the window's edges

/** Opens the menu of a session beside a node. The focus goes into it, and back as it closes. */
export function openRowMenu(beside: HTMLElement, session: ListedSession, { list, manage }: RowMenuProps): void {
  const { key, title, archived } = session;
  const pinned = list.pinned.peek().includes(key);
  const menu = h("div", { id: "row-menu", popover: "auto", role: "menu", "aria-label": called(session) });
  const item = (text: string, act: () => void): Node => h("button", { type: "button", role: "menuitem", onclick: () => leave(act) }, text);
  const save = (text: string, format: string): Node =>
    h("a", { role: "menuitem", download: true, href: at(key, `/export?format=${format}`), onclick: () => leave() }, text);
  const leave = (act?: () => void): void => {
    menu.hidePopover();
    act?.();
  };
  menu.append(
    item(pinned ? t("Unpin") : t("Pin"), () => list.pin(key, !pinned)),
    item(t("Rename"), () => manage.rename(key, title)),
    save(t("Save as Markdown"), "md"),
    save(t("Save as JSON lines"), "jsonl"),
    item(archived ? t("Bring back to the list") : t("Archive"), () => void manage.act("PATCH", "", { archived: !archived }, key)),
  );
  menu.addEventListener("keydown", (event) => step(menu, event));
  menu.addEventListener("toggle", (event) => {
    if ((event as ToggleEvent).newState === "open") return;
    if (menu.contains(document.activeElement) || document.activeElement === document.body) beside.focus({ preventScroll: true });
    removeEventListener("resize", place);
    menu.remove();
  });
  const place = (): void => put(menu, beside.getBoundingClientRect());
  addEventListener("resize", place);
  beside.closest("nav")!.append(menu);
  menu.showPopover();
  place();
  (menu.firstElementChild as HTMLElement).focus();
}

/** Puts the menu below a place, or above it if there is no room below. */
function put(menu: HTMLElement, place: DOMRect): void {
  const { width, height } = menu.getBoundingClientRect();
  const below = place.bottom + height + EDGE_PX <= innerHeight;
  const top = below ? place.bottom : Math.max(EDGE_PX, place.top - height);
  menu.style.inset = `${top}px auto auto ${Math.max(EDGE_PX, Math.min(place.right - width, innerWidth - width - EDGE_PX))}px`;
}

/** The arrow keys go from item to item, Tab closes the menu (WAI-ARIA Authoring Practices, "Menu"). */
function step(menu: HTMLElement, event: KeyboardEvent): void {
  const items = [...menu.children] as HTMLElement[];
  const now = items.indexOf(document.activeElement as HTMLElement);
  const next = { ArrowDown: now + 1, ArrowUp: now - 1, Home: 0, End: -1 }[event.key];
  if (next === undefined && event.key !== "Tab") return;
  event.preventDefault();
  if (next === undefined) menu.hidePopover();
  else items.at(next % items.length)!.focus();
}
