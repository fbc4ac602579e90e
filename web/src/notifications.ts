// Notifications of this browser: one when a session begins to need somebody while nobody looks at the page, and one when
// it still does a while after the reader has left. They are switched on in the settings; the page never asks for them by
// itself.

import { keep, kept } from "./kept.ts";
import { type SessionList, needsOf } from "./session_list.ts";
import { whatIsNeeded } from "./sessions.tsx";
import { called } from "./text.ts";
import { t } from "./texts.ts";
import { AWAY_MS, UnnotifiedNeeds, noteLeaving } from "./unnotified_needs.ts";
import type { ListedSession } from "./wire.ts";

const WORKER = "/page/worker.js";

/** Whether this browser can show notifications of the page: it needs https, or the gateway's own machine. */
export const canNotify = "serviceWorker" in navigator && "Notification" in window;

export const isNotifying = (): boolean => canNotify && kept<string>("notify", "") === "on" && Notification.permission === "granted";

/** Switches them on or off, and returns whether they are on. The browser asks the reader, unless they said no before. */
export async function setNotifying(on: boolean): Promise<boolean> {
  const isAllowed = on && (await Notification.requestPermission()) === "granted";
  keep("notify", isAllowed ? "on" : null);
  if (isAllowed) await navigator.serviceWorker.register(WORKER);
  else await (await registration())?.unregister();
  return isNotifying();
}

const registration = () => navigator.serviceWorker.getRegistration(WORKER);
const addressOf = (key: string): string => `#/s/${encodeURIComponent(key)}/open`;

/**
 * Tells the worker about the sessions that begin to need somebody while nobody looks, about those that still do a while
 * after the reader has left, and about those that no longer do.
 */
export function notifyOfNeeds(list: SessionList): void {
  if (!canNotify) return;
  const unnotified = new UnnotifiedNeeds();
  const notify = (keys: string[]): void => {
    if (!document.hidden || !isNotifying()) return;
    const due = list.needy.peek().filter(({ key }) => keys.includes(key));
    for (const session of due) void tell({ show: notificationOf(session), told: [session.key, needsOf(session)] });
  };
  let isListed = false; // the first value is from before anything was fetched
  list.needy.subscribe((needy) => {
    if (!isListed) return void (isListed = true);
    const { due, over } = unnotified.take(new Map(needy.map((session) => [session.key, needsOf(session)])));
    notify(due);
    if (isNotifying()) for (const key of over) void tell({ hide: addressOf(key) });
  });
  let away: ReturnType<typeof setTimeout> | undefined;
  document.addEventListener("visibilitychange", () => {
    clearTimeout(away);
    if (!document.hidden) return;
    noteLeaving();
    away = setTimeout(() => notify(unnotified.due()), AWAY_MS);
  });
  navigator.serviceWorker.addEventListener("message", ({ data }) => {
    if (data.told) unnotified.keepNotified(...(data.told as [string, number]));
    else goToSession(data.open);
  });
  if (isNotifying()) void navigator.serviceWorker.register(WORKER).catch(() => {}); // the browser may have removed it
}

/** Goes to a session whose notification was clicked, also if the page has its address already. */
function goToSession(address: string): void {
  if (location.hash === address) dispatchEvent(new HashChangeEvent("hashchange"));
  else location.hash = address;
}

function notificationOf(session: ListedSession): { tag: string; title: string; body: string } {
  return { tag: addressOf(session.key), title: t("{name} needs you", { name: called(session) }), body: whatIsNeeded(session) };
}

async function tell(message: unknown): Promise<void> {
  (await registration())?.active?.postMessage(message);
}
