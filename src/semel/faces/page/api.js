// Requests to the gateway. A failed one throws a Problem (RFC 9457), or NoAnswer if no complete answer came.

export class Problem extends Error {
  constructor(status, body) {
    super(body.detail || body.title || `the gateway answered ${status}`);
    this.status = status;
    this.code = String(body.type || "").split(":").pop();
    this.field = body.field;
  }
}

/** No answer came. The outcome is unknown: the gateway may have carried out the request. */
export class NoAnswer extends Error {}

let whenLoggedOut = () => {};
export function onLoggedOut(handler) {
  whenLoggedOut = handler;
}

export const at = (key, rest = "") => `/v1/sessions/${encodeURIComponent(key)}${rest}`;

const PATIENCE = 60000; // in ms: a request without an answer by then has none

export async function ask(method, path, body) {
  let answer;
  try {
    answer = await fetch(path, {
      method,
      body: body === undefined ? undefined : JSON.stringify(body),
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      credentials: "same-origin",
      signal: AbortSignal.timeout(PATIENCE),
    });
  } catch (error) {
    throw new NoAnswer(error.message);
  }
  if (answer.ok) return answer.status === 204 ? null : read(answer);
  const problem = new Problem(answer.status, await read(answer).catch(() => ({})));
  if (problem.status === 401 && path !== "/v1/login") whenLoggedOut();
  throw problem;
}

async function read(answer) {
  try {
    return await answer.json();
  } catch (error) {
    throw new NoAnswer(error.message); // the answer was cut off
  }
}
