// The sheet of keys: a dialog that lists what each key does.

import { dialogWith, h } from "./dom.ts";
import type { KeyGroup } from "./keys.ts";
import { t, tWord } from "./texts.ts";

const NAMES: Record<string, string> = { ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "←", ArrowRight: "→", Escape: "Esc" };

/** Shows the sheet. */
export function openKeySheet(groups: readonly KeyGroup[]): void {
  const sections = groups.map(({ where, keys }) =>
    h("section", { "aria-label": where },
      h("h3", {}, where),
      h("dl", { class: "keys" }, ...keys.flatMap(({ key, does }) => [h("dt", {}, ...written(key)), h("dd", {}, does)]))));
  dialogWith("keys", t("Keys"), sections).showModal();
}

/** A key as it is drawn: a sign for each part, the last of which may be a plus. */
function written(key: string): Node[] {
  return key.split("+").map((part) => h("kbd", {}, NAMES[part] ?? tWord(part)));
}
