// A permission request or a question. The first answer counts, and all watchers see it.

import { useState } from "preact/hooks";
import { inputText, openly, plainly } from "../text.ts";
import type { Item, Option } from "../wire.ts";
import type { RowContext } from "./context.ts";
import { Diffs, Whose } from "./parts.tsx";
import { t } from "../texts.ts";
import { isOwner } from "./wording.ts";

const ASKED = t("The agent asks for permission");
const CLOSED: Record<string, string> = { cancelled: t("cancelled"), expired: t("nobody answered in time") };

export const idOf = (option: Option | string): string => (typeof option === "string" ? option : option.optionId ?? option.id ?? option.name ?? "");
export const nameOf = (option: Option | string): string => plainly(typeof option === "string" ? option : option.name ?? idOf(option));

interface RequestProps {
  item: Item;
  context: Pick<RowContext, "agent" | "answer">;
  /** How it ended, shown in place of the buttons: the request stays whole. */
  over?: string | null;
}

export function RequestView({ item, context, over = null }: RequestProps) {
  const input = inputText(item.input);
  const open = item.state === "open";
  const repeats = open && item.title && input.includes(item.title); // below it stands all of what is to be allowed
  const title = item.kind === "ask" ? t("Answer") : (!repeats && (item.title || item.text)) || ASKED; // a question's text is the entry above
  return (
    <>
      <Whose context={context} />
      <p class="label" tabIndex={-1}>{plainly(title)}</p>
      {input && input !== title && open ? <pre class="input" tabIndex={0}>{openly(input)}</pre> : null}
      {open ? <Diffs diffs={item.diffs} /> : null}
      {open && over === null ? <Answers item={item} context={context} /> : <p class="outcome">{over ?? outcomeOf(item)}</p>}
    </>
  );
}

function Answers({ item, context }: RequestProps) {
  const [chosen, setChosen] = useState<string | null>(null);
  const answer = async (id: string) => {
    setChosen(id);
    if (!(await context.answer(item.id, id))) setChosen(null); // else the stream brings the outcome, to all watchers
  };
  return (
    <div class="options" role="group" aria-label={t("Answers")}>
      {(item.options || []).map((option: Option | string, place) => {
        const id = idOf(option);
        const kind = String((typeof option === "string" ? "" : option.kind) || "").replace("_", " "); // "allow once"
        return (
          <button key={place} type="button" class={chosen === id ? `${kind} chosen` : kind} disabled={chosen !== null} onClick={() => answer(id)}>
            {nameOf(option)}
          </button>
        );
      })}
    </div>
  );
}

/** How a closed request ended, and by whom. */
export function outcomeOf({ state, answer, by, options, kind }: Item): string {
  if (state !== "answered") return CLOSED[state ?? ""] || String(state);
  const chosen = (options || []).find((option) => idOf(option) === answer);
  const words = kind === "ask" ? null : answer; // what a message answered stands below, as an entry
  return `${plainly(chosen ? nameOf(chosen) : words ?? t("answered"))}${by ? ` · ${isOwner(by) ? t("You") : plainly(by)}` : ""}`;
}
