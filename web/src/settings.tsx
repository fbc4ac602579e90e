// The settings of this browser. What the gateway does is set in semel.toml.

import { useState } from "preact/hooks";
import { Lists, openLists } from "./dialog.tsx";
import { keep, kept } from "./kept.ts";
import { type Look, lookOf, setLook } from "./looks.ts";
import { canNotify, isNotifying, setNotifying } from "./notifications.ts";
import { LANGUAGES, t } from "./texts.ts";

type Choice = readonly [value: string, text: string];

export function openSettings(): void {
  const languages: Choice[] = Object.entries(LANGUAGES).map(([tag, { name }]) => [tag, name]);
  openLists("settings", (close) => (
    <Lists id="settings" title={t("Settings")} close={close}>
      <section class="settings">
        <LookSelect name="theme" label={t("Theme")} choices={[["", t("As the system has it")], ["light", t("Light")], ["dark", t("Dark")]]} />
        <LookSelect name="density" label={t("Density")} choices={[["", t("Comfortable")], ["compact", t("Compact")]]} />
        <Select name="language" label={t("Language")} choices={[["", t("As the browser has it")], ...languages]} chosen={kept("language", "")} change={setLanguage} />
        <p class="soft">{t("The page is loaded again. What the gateway, its agents and people say stays as it was said.")}</p>
        <Notifications />
      </section>
      <p class="soft">{t("These are kept in this browser.")}</p>
    </Lists>
  ));
}

const LookSelect = ({ name, ...rest }: { name: Look; label: string; choices: readonly Choice[] }) => (
  <Select name={name} {...rest} chosen={lookOf(name)} change={(value) => setLook(name, value)} />
);

function setLanguage(tag: string): void {
  keep("language", tag);
  location.reload();
}

function Notifications() {
  const [told, setTold] = useState(canNotify ? "" : t("Browsers show notifications over https or on the gateway's own machine only."));
  const change = async ({ currentTarget: box }: { currentTarget: HTMLInputElement }) => {
    const wanted = box.checked;
    box.checked = await setNotifying(wanted).catch(() => false);
    setTold(wanted && !box.checked ? t("The browser does not allow it. Allow notifications for this page in the browser's settings.") : "");
  };
  return (
    <>
      <label>
        {t("Notify me when a session needs me and I do not see the page")}
        <input type="checkbox" name="notify" defaultChecked={isNotifying()} disabled={!canNotify} onChange={change} />
      </label>
      <p class="soft" role="status">{told}</p>
    </>
  );
}

interface SelectProps {
  name: string;
  label: string;
  choices: readonly Choice[];
  chosen: string;
  change: (value: string) => void;
}

function Select({ name, label, choices, chosen, change }: SelectProps) {
  return (
    <label>
      {label}
      <select name={name} onChange={(event) => change(event.currentTarget.value)}>
        {choices.map(([value, text]) => <option key={value} value={value} selected={value === chosen}>{text}</option>)}
      </select>
    </label>
  );
}
