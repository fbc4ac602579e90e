// Texts as people see them: hidden characters become visible, names stay on one line, times are short.

import { locale, t } from "./texts.ts";

const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

/** A visible stand-in for a control character or a bidirectional override, as in semel/text/visible.py. */
function picture(sign: string): string {
  const code = sign.charCodeAt(0);
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  return code === 0x7f ? "\u2421" : `<U+${code.toString(16).toUpperCase().padStart(4, "0")}>`;
}

/** A name or an address on one line: line ends and tabs become blanks, other hidden characters become visible. */
export function plainly(text: unknown): string {
  return String(text).replace(HIDDEN, (sign) => (/\s/.test(sign) ? " " : picture(sign)));
}

/** A text with its hidden characters made visible. Line ends and tabs stay. */
export function openly(text: unknown): string {
  return String(text).replace(/\r\n/g, "\n").replace(HIDDEN, (sign) => (sign === "\n" || sign === "\t" ? sign : picture(sign)));
}

const TIME = new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit" });
const DAY = new Intl.DateTimeFormat(locale, { month: "short", day: "numeric" });
const FULL = new Intl.DateTimeFormat(locale, { dateStyle: "full", timeStyle: "medium" });

/** A time (ms since 1970): the clock's of today, with the day of an earlier one. */
export function clock(ms: number): string {
  const then = new Date(ms);
  return then.toDateString() === new Date().toDateString() ? TIME.format(then) : `${DAY.format(then)}, ${TIME.format(then)}`;
}

/** A time in a zone, with its name, as the gateway's notices write it: "2026-11-26 00:00 Europe/Berlin". */
export function zonedTime(ms: number, zone = "UTC"): string {
  try {
    const form = new Intl.DateTimeFormat("sv-SE", { timeZone: zone, dateStyle: "short", timeStyle: "short" });
    return `${form.format(new Date(ms))} ${zone}`;
  } catch {
    return zonedTime(ms); // a zone that the browser does not know
  }
}

export const fullTime = (ms: number): string => FULL.format(new Date(ms));

export function ago(ms: number): string {
  const seconds = (Date.now() - ms) / 1000;
  if (seconds < 60) return t("now");
  if (seconds < 3600) return t("{count} min", { count: Math.floor(seconds / 60) });
  return clock(ms);
}

/** The time left until `ms` (since 1970) in words: "now", "in 40 s", "in 3 min". */
export function timeLeft(ms: number): string {
  const seconds = Math.ceil((ms - Date.now()) / 1000);
  if (seconds <= 0) return t("now");
  return seconds < 120 ? t("in {count} s", { count: seconds }) : t("in {count} min", { count: Math.ceil(seconds / 60) });
}

const inUnit = (unit: string) => new Intl.NumberFormat(locale, { style: "unit", unit, unitDisplay: "narrow" });
const SECONDS = inUnit("second");
const MINUTES = inUnit("minute");

/** How long something took, in words: "12s", "3m 5s"; "" if less than a second, or if one of the times (ms) is missing. */
export function tookText(at: number | undefined, ended: number | undefined): string {
  const seconds = at === undefined || ended === undefined ? 0 : Math.round((ended - at) / 1000);
  if (seconds < 1) return "";
  const parts = [seconds >= 60 ? MINUTES.format(Math.floor(seconds / 60)) : "", seconds % 60 ? SECONDS.format(seconds % 60) : ""];
  return parts.filter(Boolean).join(" ");
}

/** The group of a list by days to which a time (ms since 1970) belongs. */
export function dayGroup(ms: number, now = new Date()): "Today" | "Yesterday" | "Older" {
  const midnight = new Date(now.getFullYear(), now.getMonth(), now.getDate());
  if (ms >= midnight.getTime()) return "Today";
  midnight.setDate(midnight.getDate() - 1); // not 24 hours: some days have 23 or 25
  return ms >= midnight.getTime() ? "Yesterday" : "Older";
}

/** The name of a session: its title, else its key without "AGENT:web:". */
export function called({ title, key }: { title?: string | null; key: string }): string {
  return plainly(title || key.replace(/^[^:]*:web:(?=.)/, ""));
}

const MAX_LINES = 20;
const MAX_CHARS = 1600;

/** Whether a text that somebody wrote would push what stands around it out of sight. */
export const isLong = (text: string): boolean => text.length > MAX_CHARS || text.split("\n", MAX_LINES + 1).length > MAX_LINES;

/** A random id that also works where the page is not served over TLS. */
export function freshId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The input of a tool call as text: the command first, then one line per field. */
export function inputText(input: unknown): string {
  if (input === null || input === undefined) return "";
  if (typeof input !== "object" || Array.isArray(input)) return plain(input, 2);
  const { command, ...rest } = input as Record<string, unknown>;
  const lines = command === undefined ? [] : [Array.isArray(command) ? command.map((one) => plain(one)).join(" ") : plain(command)];
  for (const [name, value] of Object.entries(rest)) if (value !== null && value !== "") lines.push(`${name}: ${plain(value)}`);
  return lines.join("\n");
}

const plain = (value: unknown, indent?: number): string => (typeof value === "string" ? value : JSON.stringify(value, null, indent));
