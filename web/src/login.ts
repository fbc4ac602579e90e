// Login, if the gateway demands a token. The token is sent once, in exchange for a cookie that scripts cannot read.

import { ask, messageOf, onLoggedOut } from "./api.ts";
import { byId, dialogById, inputById, say } from "./dom.ts";

export function login(done: () => void): void {
  const dialog = dialogById("login");
  onLoggedOut(() => dialog.open || dialog.showModal());
  dialog.addEventListener("cancel", (event) => event.preventDefault());
  byId("login-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await ask("POST", "/v1/login", { token: inputById("token").value });
    } catch (error) {
      return say(byId("login-wrong"), messageOf(error));
    }
    inputById("token").value = "";
    say(byId("login-wrong"), "");
    dialog.close();
    done();
  });
}

/**
 * Logs in with a code or token after the `#` of a link, which no browser sends, and removes it from the address.
 * Returns whether it logged in. A browser does not load the page again if it is open already when the link is opened.
 */
export async function loginByLink(): Promise<boolean> {
  const found = /^#(code|token)=(.+)$/.exec(location.hash);
  if (!found) return false;
  history.replaceState(null, "", location.pathname);
  try {
    await ask("POST", "/v1/login", { [found[1]!]: decodeURIComponent(found[2]!) });
  } catch (error) {
    say(byId("login-wrong"), messageOf(error));
    return false;
  }
  say(byId("login-wrong"), "");
  dialogById("login").close();
  return true;
}
