// The header of a session: its title, agent, mode and model, how much of the model's context is used, and whether the
// agent lacks Semel's tools.

import { ask, at } from "./api.ts";
import { byId, called, h, say } from "./dom.ts";
import type { Transcript } from "./transcript.ts";
import type { Item, ModelOffer, SessionState } from "./wire.ts";
import { t } from "./texts.ts";

export interface Offer {
  current?: string;
  options: { id: string; text: string }[];
}

interface HeaderProps {
  problem: (error: unknown) => void;
  begin: (agent: string) => void;
  /** Called when the window becomes narrow, or wide. */
  narrow: () => void;
}

const WITHOUT_TOOLS =
  t("This agent does not use Semel's tools. It cannot send messages or files in the middle of its turn, ask questions or start jobs; what it writes is delivered.");

const NARROW = matchMedia("(max-width: 760px)");

const DECIDES_ALONE = t("In its present mode this agent decides by itself what it may do: nobody is asked for a permission.");

export class Header {
  /** The agents that a new session may have. */
  agents: Offer | null = null;
  private props: HeaderProps;
  private told = "";

  /** begin(agent) starts another new session, with that agent. */
  constructor(props: HeaderProps) {
    this.props = props;
    NARROW.addEventListener("change", props.narrow);
  }

  draw(key: string, view: Transcript, fresh: boolean): void {
    const session = view.session.value;
    const name = fresh ? t("New session") : called({ title: session.title, key });
    say(byId("title"), name);
    byId("title").title = key;
    const used = usage(view.items("usage").at(-1));
    const home = session.home && !session.home.startsWith("web:") ? t("also at {home}", { home: session.home }) : "";
    const tools = session.tools === false ? t("without Semel's tools") : "";
    const alone = asksNobody(view) ? t("asks nobody for permission") : "";
    say(byId("under"), [session.agent, name === key ? "" : key, home, used, tools, alone].filter(Boolean).join(" · "));
    byId("under").title = [tools && WITHOUT_TOOLS, alone && DECIDES_ALONE].filter(Boolean).join("\n");
    this.choices(key, view, fresh);
  }

  /** Redraws the menus only if their options changed, so that a menu that the reader opened stays open. */
  private choices(key: string, view: Transcript, fresh: boolean): void {
    const place = NARROW.matches && !fresh ? byId("manage") : byId("choices-place"); // a phone has one row for all
    if (byId("choices").parentElement !== place) place.prepend(byId("choices"));
    const all: [string, string, Offer | null][] = [
      ["agent", t("Agent"), fresh ? this.agents : null],
      ["mode", t("Mode"), modes(view)],
      ["model", t("Model"), models(view)],
    ];
    const offers = all.filter((one): one is [string, string, Offer] => (one[2]?.options.length ?? 0) > 1);
    const told = JSON.stringify([key, offers]);
    if (told === this.told) return;
    this.told = told;
    const held = (document.activeElement as HTMLSelectElement | null)?.name;
    byId("choices").replaceChildren(...offers.map(([name, label, offer]) => this.select(key, name, label, offer)));
    if (held) byId("choices").querySelector<HTMLElement>(`[name="${CSS.escape(held)}"]`)?.focus({ preventScroll: true });
  }

  private select(key: string, name: string, label: string, offer: Offer): Node {
    const change = async (event: Event) => {
      const chosen = event.target as HTMLSelectElement;
      if (name === "agent") return this.props.begin(chosen.value);
      try {
        await ask("PUT", at(key, `/${name}`), { [name]: chosen.value });
      } catch (error) {
        chosen.value = offer.current ?? "";
        this.props.problem(error);
      }
    };
    const options = offer.options.map(({ id, text }) => h("option", { value: id, selected: id === offer.current }, text));
    return h("select", { name, "aria-label": label, title: label, onchange: change }, ...options);
  }
}

// Modes and models have the form of ACP's session modes and models; models may also be an ACP config option.
/** What an item of this kind tells; older versions told modes and models so. */
const toldBy = (view: Transcript, kind: string) => view.items(kind).at(-1) as (Item & SessionState) | undefined;

function modes(view: Transcript): Offer | null {
  const told = view.session.value.modes ?? toldBy(view, "mode")?.modes ?? (toldBy(view, "mode") as SessionState["modes"]);
  if (!told?.availableModes) return null;
  const alone = view.session.value.unattended_modes ?? [];
  const options = told.availableModes.map(({ id, name }) => ({ id, text: (name || id) + (alone.includes(id) ? ` ${t("(asks nobody)")}` : "") }));
  return { current: view.session.value.mode ?? told.currentModeId, options };
}

/** Whether the agent is in a mode in which it decides by itself what it may do. */
function asksNobody(view: Transcript): boolean {
  return view.session.value.unattended_modes?.includes(modes(view)?.current ?? "") ?? false;
}

function models(view: Transcript): Offer | null {
  const told = view.session.value.models ?? toldBy(view, "mode")?.models ?? (toldBy(view, "model") as SessionState["models"] | undefined);
  const list = told?.availableModels ?? told?.options;
  if (!list) return null;
  const options = list.map((one: ModelOffer) => ({ id: one.modelId ?? one.value ?? one.id ?? "", text: one.name || one.modelId || one.value || "" }));
  return { current: view.session.value.model ?? told?.currentModelId ?? told?.currentValue, options };
}

function usage(item: Item | undefined): string {
  if (!item || !item.size || item.used === undefined) return "";
  return t("{percent} % of context used", { percent: Math.round((100 * item.used) / item.size) });
}
