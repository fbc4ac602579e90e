// The list of sessions on the left.

import type { Signal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { type SessionList, needsOf } from "./session_list.ts";
import { ago, called, dayGroup, plainly } from "./text.ts";
import type { ListedSession } from "./wire.ts";
import { t, tWord } from "./texts.ts";

interface SessionsProps {
  list: SessionList;
  /** The open session. */
  open: Signal<string | null>;
  /** Called when a session is chosen. */
  chosen: () => void;
}

interface MenuProps {
  /** Opens the menu of a session, beside a node of its row. */
  menu: (beside: HTMLElement, session: ListedSession) => void;
}

export function Sessions({ list, open, chosen, menu }: SessionsProps & MenuProps) {
  const root = useRef<HTMLUListElement>(null);
  const sessions = list.listed.value;
  const groupOf = ({ key, at }: ListedSession) => (list.pinned.value.includes(key) ? "Pinned" : dayGroup(at));
  const agents = new Set(sessions.map((one) => one.agent));
  const focused = root.current?.contains(document.activeElement) ? document.activeElement! : null;
  const hash = focused && linkBeside(focused)?.hash;
  useLayoutEffect(() => {
    if (!hash || root.current?.contains(document.activeElement)) return;
    const again = [...root.current!.querySelectorAll("a")].find((link) => link.hash === hash);
    (focused.matches("a") ? again : again?.parentElement!.querySelector("button"))?.focus({ preventScroll: true }); // its row has moved
  });
  const archived = list.archived.value;
  return (
    <>
      <ul id="sessions" ref={root}>
        {sessions.flatMap((session, place) => {
          const group = groupOf(session);
          const begins = place === 0 || groupOf(sessions[place - 1]!) !== group;
          const link = <SessionLink key={session.key} session={session} isOpen={session.key === open.value} showsAgent={agents.size > 1} chosen={chosen} menu={menu} />;
          return begins ? [<li key={`day ${group}`} class="day">{t(group)}</li>, link] : [link]; // no session's key has a blank
        })}
      </ul>
      {sessions.length || !list.isFetched.value ? null : <p id="no-sessions" class="hint">{archived ? t("No session is archived.") : t("No sessions yet.")}</p>}
      {list.more.value ? <button id="more-sessions" type="button" class="quiet" onClick={() => list.showMore()}>{t("More sessions")}</button> : null}
    </>
  );
}

const linkBeside = (node: Element): HTMLAnchorElement | null => node.closest("li")!.querySelector("a");

interface SessionLinkProps extends MenuProps {
  session: ListedSession;
  isOpen: boolean;
  showsAgent: boolean;
  chosen: () => void;
}

function SessionLink({ session, isOpen, showsAgent, chosen, menu }: SessionLinkProps) {
  const needs = needsOf(session);
  const state = session.state === "running" || session.state === "waiting" ? tWord(session.state) : "";
  const unread = isOpen && document.hasFocus() ? 0 : session.unread ?? 0;
  const openMenu = (event: MouseEvent) => {
    if (event.button === 2) return; // a mouse gets the browser's own menu of a link; a finger and the menu key get this one
    event.preventDefault();
    menu(event.currentTarget as HTMLElement, session);
  };
  return (
    <li class="session">
      <a onContextMenu={openMenu} href={`#/s/${encodeURIComponent(session.key)}`} aria-current={isOpen ? "page" : undefined} class={unread ? "unread" : ""} onClick={chosen}>
        <span class="dot" data-state={needs ? "needs" : session.state} title={needs ? t("needs you") : state} />
        <b title={session.key}>{called(session)}</b>
        <small>{session.at ? ago(session.at) : ""}</small>
        <span class="last">{session.last || ""}</span>
        <span class="badges">
          {showsAgent ? <small class="agent">{plainly(session.agent ?? "")}</small> : null}
          {needs ? <span class="badge needs" title={whatIsNeeded(session)}>{needs}</span> : null}
          {unread && !needs ? <span class="badge" title={t("{count} new", { count: unread })}>{unread > 99 ? "99+" : unread}</span> : null}
        </span>
      </a>
      <button type="button" class="quiet icon" aria-label={t("What to do with {name}", { name: called(session) })} aria-haspopup="menu" onClick={openMenu}>
        <svg class="glyph" viewBox="0 0 20 20" aria-hidden="true"><path d="M4.5 10h.01M10 10h.01M15.5 10h.01" /></svg>
      </button>
    </li>
  );
}

/** What somebody has to do in a session: "1 approval, 2 held messages". */
export function whatIsNeeded({ approvals = 0, questions = 0, held = 0, failed }: ListedSession): string {
  const counted = (count: number, single: string, several: string) => (count > 1 ? several : count ? single : "");
  return [
    counted(approvals, t("1 approval"), t("{count} approvals", { count: approvals })),
    counted(questions, t("1 question"), t("{count} questions", { count: questions })),
    counted(held, t("1 held message"), t("{count} held messages", { count: held })),
    failed ? t("its last turn failed") : "",
  ].filter(Boolean).join(", ");
}

/** The link to what needs somebody; nothing if nothing does. */
export function NeedsLink({ list, chosen }: Omit<SessionsProps, "open">) {
  const needy = list.needy.value;
  if (!needy.length) return null;
  return (
    <a id="needs" href="#needs" title={needy.map((one) => `${called(one)}: ${whatIsNeeded(one)}`).join("\n")} onClick={chosen}>
      {t("Needs you")} <span class="badge needs">{list.needed.value}</span>
    </a>
  );
}

/** Shows the archived sessions in the list, and then the others again. */
export function ArchivedButton({ list }: { list: SessionList }) {
  const archived = list.archived.value;
  return (
    <button id="archived" type="button" class="quiet" aria-pressed={archived ? "true" : "false"} onClick={() => list.toggleArchived()}>
      {archived ? t("Back to the other sessions") : t("Archived")}
    </button>
  );
}
