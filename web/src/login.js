// Login, if the gateway demands a token. The token is sent once, in exchange for a cookie that scripts cannot read.

import { ask, onLoggedOut } from "./api.ts";
import { byId, say } from "./dom.js";

export function login(done) {
  const dialog = byId("login");
  onLoggedOut(() => dialog.open || dialog.showModal());
  dialog.addEventListener("cancel", (event) => event.preventDefault());
  byId("login-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await ask("POST", "/v1/login", { token: byId("token").value });
    } catch (error) {
      return say(byId("login-wrong"), error.message);
    }
    byId("token").value = "";
    say(byId("login-wrong"), "");
    dialog.close();
    done();
  });
}

/**
 * Logs in with a code or token after the `#` of a link, which no browser sends, and removes it from the address.
 * Returns whether it logged in. A browser does not load the page again if it is open already when the link is opened.
 */
export async function loginByLink() {
  const found = /^#(code|token)=(.+)$/.exec(location.hash);
  if (!found) return false;
  history.replaceState(null, "", location.pathname);
  try {
    await ask("POST", "/v1/login", { [found[1]]: decodeURIComponent(found[2]) });
  } catch (error) {
    say(byId("login-wrong"), error.message);
    return false;
  }
  say(byId("login-wrong"), "");
  byId("login").close();
  return true;
}
