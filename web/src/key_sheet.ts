// The sheet of keys: a dialog that lists what each key does.

import { dialogWith, h } from "./dom.ts";
import type { KeyGroup } from "./keys.ts";

const NAMES: Record<string, string> = { ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "←", ArrowRight: "→", Escape: "Esc" };

/** Shows the sheet. Returns true: there is always one to show. */
export function openKeySheet(groups: readonly KeyGroup[]): true {
  const sections = groups.map(({ where, keys }) =>
    h("section", { "aria-label": where },
      h("h3", {}, where),
      h("dl", { class: "keys" }, ...keys.flatMap(({ key, does }) => [h("dt", {}, ...written(key)), h("dd", {}, does)]))));
  dialogWith("keys", "Keys", sections).showModal();
  return true;
}

/** A key as it is drawn: a sign for each part, the last of which may be a plus. */
function written(key: string): Node[] {
  return key.split("+").map((part) => h("kbd", {}, NAMES[part] ?? part));
}
