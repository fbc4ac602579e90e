// Login, if the gateway demands a token. The token is sent once, in exchange for a cookie that scripts cannot read.

import { signal } from "@preact/signals";
import { ask, messageOf, onLoggedOut } from "./api.ts";
import { withLater } from "./on_demand.ts";

const wrong = signal(""); // why the last token or code did not do
let isOut = false;
let close: () => void = () => {};

/** Whether the gateway waits for a token. */
export const isLoggedOut = (): boolean => isOut;

/** Asks for the token whenever the gateway demands one, and calls `done` when it has it. */
export function login(done: () => void): void {
  onLoggedOut(() => {
    isOut = true;
    void withLater(({ openLogin }) => {
      if (!isOut || document.querySelector("#login")) return;
      const dialog = openLogin(wrong, async (token) => (await enter({ token })) && done());
      close = () => dialog.close();
    });
  });
}

/** Sends a token or a code. Returns whether it was the right one; if not, the dialog says why. */
async function enter(what: Record<string, string>): Promise<boolean> {
  try {
    await ask("POST", "/v1/login", what);
  } catch (error) {
    wrong.value = messageOf(error);
    return false;
  }
  wrong.value = "";
  isOut = false;
  close();
  return true;
}

/**
 * Logs in with a code or token after the `#` of a link, which no browser sends, and removes it from the address.
 * Returns whether it logged in. A browser does not load the page again if it is open already when the link is opened.
 */
export async function loginByLink(): Promise<boolean> {
  const found = /^#(code|token)=(.+)$/.exec(location.hash);
  if (!found) return false;
  history.replaceState(null, "", location.pathname);
  return enter({ [found[1]!]: decodeURIComponent(found[2]!) });
}
