// What the line above the message box says: what the agent does, or did when the gateway was last heard.

import { t } from "./texts.ts";
import type { SessionState } from "./wire.ts";

export const SILENCE_MS = 30000; // after this time without any change, people are told that the agent is silent

export interface Activity {
  session: SessionState;
  /** Whether a request for permission is open. */
  isAsked: boolean;
  /** Why its gateway does nothing, in words; "" if it is well. */
  trouble: string;
  /** For how long the view has not changed, in ms. */
  quietMs: number;
  /** Whether the line to the gateway is alive: if not, nobody knows what the agent does now. */
  isLive: boolean;
}

export function describeActivity({ session, isAsked, trouble, quietMs, isLive }: Activity): string {
  const known = describeWork(session, isAsked, isLive ? quietMs : 0);
  if (!known) return "";
  return [trouble, isLive ? known : t("last known: {what}", { what: known })].filter(Boolean).join(" · ");
}

/** What the agent does, and how many messages wait, in words; "" if neither is to be said. */
function describeWork(session: SessionState, isAsked: boolean, quietMs: number): string {
  const waiting = session.waiting ? t("waiting: {count}", { count: session.waiting }) : "";
  if (session.state !== "running") return waiting;
  if (session.retry_at !== undefined) return t("the turn failed");
  const doing = isAsked ? t("the agent asks for permission") : describeSilence(quietMs) || t("working");
  return [doing, waiting].filter(Boolean).join(" · ");
}

/** For how long the running turn has shown nothing new, in words; "" if not for long. It changes every half a minute. */
function describeSilence(quietMs: number): string {
  const seconds = Math.floor(quietMs / SILENCE_MS) * (SILENCE_MS / 1000);
  if (!seconds) return "";
  return seconds < 120 ? t("working: nothing new for {count} s", { count: seconds }) : t("working: nothing new for {count} min", { count: Math.floor(seconds / 60) });
}
