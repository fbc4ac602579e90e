// The menu of a session in the list: pin, rename, save, archive, delete. It is loaded when it is opened for the first time.

import { render } from "preact";
import { at } from "./api.ts";
import { called, h } from "./dom.ts";
import { type Managing, askDelete, askTitle, changeSession, exportOf } from "./manage.tsx";
import type { SessionList } from "./session_list.ts";
import { t } from "./texts.ts";
import type { ListedSession } from "./wire.ts";

interface RowMenuProps {
  list: SessionList;
  managing: Managing;
}

const EDGE_PX = 8; // that stay free between the menu and the window's edges

/** Opens the menu of a session beside a node. The focus goes into it, and back as it closes. */
export function openRowMenu(beside: HTMLElement, session: ListedSession, props: RowMenuProps): void {
  const menu = h("div", { id: "row-menu", popover: "auto", role: "menu", "aria-label": called(session) });
  menu.addEventListener("keydown", (event) => step(menu, event));
  menu.addEventListener("toggle", (event) => {
    if ((event as ToggleEvent).newState === "open") return;
    if (menu.contains(document.activeElement) || document.activeElement === document.body) beside.focus({ preventScroll: true });
    removeEventListener("resize", place);
    render(null, menu);
    menu.remove();
  });
  const place = (): void => put(menu, beside.getBoundingClientRect());
  addEventListener("resize", place);
  render(<RowMenu {...props} session={session} leave={() => menu.hidePopover()} />, menu);
  beside.closest("nav")!.append(menu);
  menu.showPopover();
  place();
  (menu.firstElementChild as HTMLElement).focus();
}

function RowMenu({ session, list, managing, leave }: RowMenuProps & { session: ListedSession; leave: () => void }) {
  const { key, title, archived } = session;
  const pinned = list.pinned.peek().includes(key);
  const act = (does: () => unknown) => () => {
    leave();
    void does();
  };
  return (
    <>
      <button type="button" role="menuitem" onClick={act(() => list.pin(key, !pinned))}>{pinned ? t("Unpin") : t("Pin")}</button>
      <button type="button" role="menuitem" onClick={act(() => askTitle(managing, key, title))}>{t("Rename")}</button>
      <a role="menuitem" download href={exportOf(key, "html")} onClick={leave}>{t("Save as a web page")}</a>
      <a role="menuitem" download href={exportOf(key, "md")} onClick={leave}>{t("Save as Markdown")}</a>
      <a role="menuitem" download href={exportOf(key, "jsonl")} onClick={leave}>{t("Save as JSON lines")}</a>
      <button type="button" role="menuitem" onClick={act(() => changeSession(managing, "PATCH", at(key), { archived: !archived }))}>
        {archived ? t("Bring back to the list") : t("Archive")}
      </button>
      <button type="button" role="menuitem" class="danger" onClick={act(() => askDelete(managing, key, title))}>{t("Delete")}</button>
    </>
  );
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
