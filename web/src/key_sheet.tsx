// The sheet of keys: a dialog that lists what each key does.

import { Lists, openLists } from "./dialog.tsx";
import type { KeyGroup } from "./keys.ts";
import { t, tWord } from "./texts.ts";

const NAMES: Record<string, string> = { ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "←", ArrowRight: "→", Escape: "Esc" };

/** Shows the sheet. */
export function openKeySheet(groups: readonly KeyGroup[]): void {
  openLists("keys", (close) => (
    <Lists id="keys" title={t("Keys")} close={close}>
      {groups.map(({ where, keys }) => (
        <section key={where} aria-label={where}>
          <h3>{where}</h3>
          <dl class="keys">{keys.map(({ key, does }) => [<dt key={key}>{written(key)}</dt>, <dd key={does}>{does}</dd>])}</dl>
        </section>
      ))}
    </Lists>
  ));
}

/** A key as it is drawn: a sign for each part, the last of which may be a plus. */
const written = (key: string) => key.split("+").map((part) => <kbd key={part}>{NAMES[part] ?? tWord(part)}</kbd>);
