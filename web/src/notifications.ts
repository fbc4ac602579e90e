// Notifications of this browser: one when a session needs somebody while nobody looks at the page. They are switched on
// in the settings; the page never asks for them by itself.

import { keep, kept } from "./kept.ts";
import { type SessionList, needsOf } from "./session_list.ts";
import { whatIsNeeded } from "./sessions.tsx";
import { called } from "./text.ts";
import { t } from "./texts.ts";
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
const addressOf = (key: string): string => `#/s/${encodeURIComponent(key)}`;

/** Tells the worker about the sessions that begin to need somebody, and about those that no longer do. */
export function notifyOfNeeds(list: SessionList): void {
  if (!canNotify) return;
  let known = new Map<string, number>();
  list.needy.subscribe((needy) => {
    const needs = new Map(needy.map((session) => [session.key, needsOf(session)]));
    const more = needy.filter((session) => needsOf(session) > (known.get(session.key) ?? 0));
    const gone = [...known.keys()].filter((key) => !needs.has(key));
    known = needs;
    if (!isNotifying()) return;
    if (document.hidden) for (const session of more) void tell({ show: notificationOf(session), open: addressOf(session.key) });
    for (const key of gone) void tell({ hide: addressOf(key) });
  });
  navigator.serviceWorker.addEventListener("message", ({ data }) => (location.hash = data.open)); // one was clicked
  if (isNotifying()) void navigator.serviceWorker.register(WORKER).catch(() => {}); // the browser may have removed it
}

function notificationOf(session: ListedSession): { tag: string; title: string; body: string } {
  return { tag: addressOf(session.key), title: t("{name} needs you", { name: called(session) }), body: whatIsNeeded(session) };
}

async function tell(message: unknown): Promise<void> {
  (await registration())?.active?.postMessage(message);
}
