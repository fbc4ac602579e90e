// The head of a session: its title, agent, mode and model, how much of the model's context is used, whether the agent
// lacks Semel's tools, and whether the line to the gateway is alive.

import type { ReadonlySignal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { ask, at } from "./api.ts";
import { isNarrow } from "./narrow.ts";
import type { LinkState } from "./stream.ts";
import { called } from "./text.ts";
import type { Transcript } from "./transcript.ts";
import type { Item, ModelOffer, SessionState } from "./wire.ts";
import { t } from "./texts.ts";

export interface Offer {
  current?: string | undefined;
  options: { id: string; text: string }[];
}

/** What the head shows. Each change of the session makes a new one. */
export interface Shown {
  key: string;
  view: Transcript;
  isFresh: boolean;
  /** The agents that a new session may have. */
  agents: Offer | null;
}

const WITHOUT_TOOLS =
  t("This agent does not use Semel's tools. It cannot send messages or files in the middle of its turn, ask questions or start jobs; what it writes is delivered.");
const DECIDES_ALONE = t("In its present mode this agent decides by itself what it may do: nobody is asked for a permission.");
const LINKS: Record<LineState, string> = { live: t("live"), lost: t("reconnecting"), gone: t("this session is gone"), new: t("new"), off: t("connecting"), apart: t("older") };

export type LineState = LinkState | "off" | "apart";

export const nameOf = ({ key, view, isFresh }: Shown): string => (isFresh ? t("New session") : called({ title: view.session.value.title ?? null, key }));

/** The title, and a line about the session below it. */
export function About({ shown }: { shown: ReadonlySignal<Shown | null> }) {
  if (!shown.value) return <h1 id="title">{"Semel"}</h1>;
  const { key, view } = shown.value;
  const session = view.session.value;
  const name = nameOf(shown.value);
  const used = usage(view.items("usage").at(-1));
  const home = session.home && !session.home.startsWith("web:") ? t("also at {home}", { home: session.home }) : "";
  const tools = session.tools === false ? t("without Semel's tools") : "";
  const alone = asksNobody(view) ? t("asks nobody for permission") : "";
  return (
    <>
      <h1 id="title" title={key}>{name}</h1>
      <p id="under" title={[tools && WITHOUT_TOOLS, alone && DECIDES_ALONE].filter(Boolean).join("\n")}>
        {[session.agent, home, used, tools, alone].filter(Boolean).join(" · ")}
      </p>
    </>
  );
}

/** Whether the line to the gateway is alive. */
export const Line = ({ state }: { state: ReadonlySignal<LineState> }) => (
  <p id="link" role="status" data-state={state.value}><span class="dot" /><span id="link-text">{LINKS[state.value]}</span></p>
);

interface ChoicesProps {
  shown: ReadonlySignal<Shown | null>;
  /** Whether they stand in the session's menu: on a phone, which has one row for all. */
  inMenu?: boolean;
  /** Starts another new session with an agent. */
  begin: (agent: string) => void;
  problem: (error: unknown) => void;
}

/** The menus of agent, mode and model, each if there is a choice. */
export function Choices({ shown, inMenu = false, begin, problem }: ChoicesProps) {
  if (!shown.value) return null;
  const { key, view, isFresh, agents } = shown.value;
  if (inMenu !== (isNarrow.value && !isFresh)) return null;
  const all: [string, string, Offer | null][] = [
    ["agent", t("Agent"), isFresh ? agents : null],
    ["mode", t("Mode"), modes(view)],
    ["model", t("Model"), models(view)],
  ];
  const choose = (name: string) => async (id: string) => (name === "agent" ? begin(id) : void (await ask("PUT", at(key, `/${name}`), { [name]: id })));
  return (
    <div id="choices">
      {all.map(([name, label, offer]) => (offer && offer.options.length > 1 ? <Choice key={`${name} ${key}`} name={name} label={label} offer={offer} choose={choose(name)} problem={problem} /> : null))}
    </div>
  );
}

interface ChoiceProps {
  name: string;
  label: string;
  offer: Offer;
  choose: (id: string) => Promise<void>;
  problem: (error: unknown) => void;
}

function Choice({ name, label, offer, choose, problem }: ChoiceProps) {
  const [chosen, setChosen] = useState<string | null>(null); // until the gateway tells what is current then
  useEffect(() => setChosen(null), [offer.current]);
  const change = async ({ currentTarget: { value } }: { currentTarget: HTMLSelectElement }) => {
    setChosen(value);
    try {
      await choose(value);
    } catch (error) {
      setChosen(null);
      problem(error);
    }
  };
  return (
    <select name={name} aria-label={label} title={label} value={chosen ?? offer.current} onChange={change}>
      {offer.options.map(({ id, text }) => <option key={id} value={id}>{text}</option>)}
    </select>
  );
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
