// Requests to the gateway. A failed one throws a Problem (RFC 9457), or NoAnswer if no complete answer came.

import { t } from "./texts.ts";

export class Problem extends Error {
  status: number;
  code: string;
  field: string | undefined;

  constructor(status: number, body: { type?: string; title?: string; detail?: string; field?: string }) {
    super(body.detail || body.title || t("the gateway answered {status}", { status }));
    this.status = status;
    this.code = String(body.type || "").split(":").pop() ?? "";
    this.field = body.field;
  }
}

/** No answer came. The outcome is unknown: the gateway may have carried out the request. */
export class NoAnswer extends Error {}

/** The text of anything that was thrown. */
export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** The status of a Problem; 0 for every other error. */
export const statusOf = (error: unknown): number => (error instanceof Problem ? error.status : 0);

let whenLoggedOut: () => void = () => {};
export function onLoggedOut(handler: () => void): void {
  whenLoggedOut = handler;
}

export const at = (key: string, rest = ""): string => `/v1/sessions/${encodeURIComponent(key)}${rest}`;

export const ANSWER_TIMEOUT_MS = 60000; // a request without an answer by then has none

/**
 * Sends a request and returns the answer's JSON, of which the caller knows the shape; null for an empty answer.
 * `timeoutMs`: for how long it waits for the answer. `signal`: ends that wait at once.
 */
export async function ask<T = unknown>(method: string, path: string, body?: unknown, timeoutMs = ANSWER_TIMEOUT_MS, signal?: AbortSignal): Promise<T> {
  const waiting = new AbortController(); // `AbortSignal.any` is younger than the browsers that the page is built for
  const end = ({ target }: Event): void => waiting.abort((target as AbortSignal).reason);
  AbortSignal.timeout(timeoutMs).addEventListener("abort", end);
  if (signal?.aborted) waiting.abort(signal.reason);
  signal?.addEventListener("abort", end);
  try {
    return await request(method, path, body, waiting.signal);
  } finally {
    signal?.removeEventListener("abort", end);
  }
}

async function request<T>(method: string, path: string, body: unknown, signal: AbortSignal): Promise<T> {
  let answer: Response;
  try {
    answer = await fetch(path, {
      method,
      body: body === undefined ? undefined : JSON.stringify(body),
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      credentials: "same-origin",
      signal,
    });
  } catch (error) {
    throw new NoAnswer(messageOf(error));
  }
  if (answer.ok) return (answer.status === 204 ? null : await read(answer)) as T;
  const problem = new Problem(answer.status, await read(answer).catch(() => ({})));
  if (problem.status === 401 && path !== "/v1/login") whenLoggedOut();
  throw problem;
}

/** The text at an address; null if it cannot be had. */
export async function readText(path: string): Promise<string | null> {
  const answer = await fetch(path, { credentials: "same-origin", signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS) }).catch(() => null);
  return answer?.ok ? answer.text().catch(() => null) : null;
}

async function read(answer: Response): Promise<any> {
  try {
    return await answer.json();
  } catch (error) {
    throw new NoAnswer(messageOf(error)); // the answer was cut off
  }
}
