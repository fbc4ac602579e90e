// Logging in, where a token is demanded. The token goes to the gateway once; what stays is a cookie no script sees.

import { ask, onLoggedOut } from "/page/api.js";
import { byId, say } from "/page/dom.js";

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

/** A link may bring the token behind the `#`, which no server sees; it is taken out of the address at once. */
export async function loginByLink() {
  const found = /^#token=(.+)$/.exec(location.hash);
  if (!found) return;
  history.replaceState(null, "", location.pathname);
  await ask("POST", "/v1/login", { token: decodeURIComponent(found[1]) }).catch(() => {});
}
