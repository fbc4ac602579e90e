// The dialog that asks for the owner's token. It is loaded when the gateway demands one.

import type { Signal } from "@preact/signals";
import { openDialog } from "./dialog.tsx";
import { t } from "./texts.ts";

/** Opens the dialog, which only `enter` closes. `wrong`: why the last token did not do. */
export function openLogin(wrong: Signal<string>, enter: (token: string) => Promise<unknown>): HTMLDialogElement {
  const dialog = openDialog("login", () => <Login wrong={wrong} enter={enter} />);
  dialog.addEventListener("cancel", (event) => event.preventDefault());
  return dialog;
}

function Login({ wrong, enter }: { wrong: Signal<string>; enter: (token: string) => Promise<unknown> }) {
  const submit = (event: Event) => {
    event.preventDefault();
    void enter((event.currentTarget as HTMLFormElement).querySelector("input")!.value);
  };
  return (
    <form id="login-form" onSubmit={submit}>
      <h2 id="login-title">{t("Who is there?")}</h2>
      <p>
        {t("This gateway asks for the owner's token. It is in the file")} <code>owner.token</code> {t("of its data directory. Or open a link that")}{" "}
        <code>semel link</code> {t("prints there.")}
      </p>
      <label for="token">{t("Token")}</label>
      <input id="token" type="password" autocomplete="current-password" required />
      <p id="login-wrong" class="wrong" role="alert">{wrong.value}</p>
      <button type="submit" class="main">{t("Log in")}</button>
    </form>
  );
}
