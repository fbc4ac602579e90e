// The settings of this browser. What the gateway does is set in semel.toml.

import { dialogWith, h, say } from "./dom.ts";
import { keep, kept } from "./kept.ts";
import { type Look, lookOf, setLook } from "./looks.ts";
import { canNotify, isNotifying, setNotifying } from "./notifications.ts";
import { LANGUAGES, t } from "./texts.ts";

type Choice = readonly [value: string, text: string];

export function openSettings(): void {
  const languages: Choice[] = Object.entries(LANGUAGES).map(([tag, { name }]) => [tag, name]);
  const body = [
    h("section", { class: "settings" },
      look("theme", t("Theme"), [["", t("As the system has it")], ["light", t("Light")], ["dark", t("Dark")]]),
      look("density", t("Density"), [["", t("Comfortable")], ["compact", t("Compact")]]),
      select("language", t("Language"), [["", t("As the browser has it")], ...languages], kept("language", ""), setLanguage),
      h("p", { class: "soft" }, t("The page is loaded again. What the gateway, its agents and people say stays as it was said.")),
      ...notifications()),
    h("p", { class: "soft" }, t("These are kept in this browser.")),
  ];
  dialogWith("settings", t("Settings"), body).showModal();
}

function look(name: Look, label: string, choices: readonly Choice[]): Node {
  return select(name, label, choices, lookOf(name), (value) => setLook(name, value));
}

function setLanguage(tag: string): void {
  keep("language", tag);
  location.reload();
}

function notifications(): Node[] {
  const told = h("p", { class: "soft", role: "status" }, canNotify ? "" : t("Browsers show notifications over https or on the gateway's own machine only."));
  const box = h("input", { type: "checkbox", name: "notify", checked: isNotifying(), disabled: !canNotify });
  box.addEventListener("change", async () => {
    const wanted = box.checked;
    box.checked = await setNotifying(wanted).catch(() => false);
    say(told, wanted && !box.checked ? t("The browser does not allow it. Allow notifications for this page in the browser's settings.") : "");
  });
  return [h("label", {}, t("Notify me when a session needs me and I do not see the page"), box), told];
}

function select(name: string, label: string, choices: readonly Choice[], chosen: string, change: (value: string) => void): Node {
  const options = choices.map(([value, text]) => h("option", { value, selected: value === chosen }, text));
  const onchange = (event: Event) => change((event.target as HTMLSelectElement).value);
  return h("label", {}, label, h("select", { name, onchange }, ...options));
}
