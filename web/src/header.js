// The header of a session: its title, agent, mode and model, how much of the model's context is used, and whether the
// agent lacks Semel's tools.

import { ask, at } from "./api.ts";
import { byId, called, h, say } from "./dom.js";

const WITHOUT_TOOLS =
  "This agent does not use Semel's tools. It cannot send messages or files in the middle of its turn, ask questions or " +
  "start jobs; what it writes is delivered.";

const DECIDES_ALONE = "In its present mode this agent decides by itself what it may do: nobody is asked for a permission.";

export class Header {
  /** begin(agent) starts another new session, with that agent. */
  constructor({ problem, begin }) {
    this.problem = problem;
    this.begin = begin;
    this.agents = null;
    this.told = "";
  }

  draw(key, view, fresh) {
    const session = view.session.value;
    const name = fresh ? "New session" : called({ title: session.title, key });
    say(byId("title"), name);
    byId("title").title = key;
    const used = usage(view.items("usage").at(-1));
    const home = session.home && !session.home.startsWith("web:") ? `also at ${session.home}` : "";
    const tools = session.tools === false ? "without Semel's tools" : "";
    const alone = asksNobody(view) ? "asks nobody for permission" : "";
    say(byId("under"), [session.agent, name === key ? "" : key, home, used, tools, alone].filter(Boolean).join(" · "));
    byId("under").title = [tools && WITHOUT_TOOLS, alone && DECIDES_ALONE].filter(Boolean).join("\n");
    this.choices(key, view, fresh);
  }

  /** Redraws the menus only if their options changed, so that a menu that the reader opened stays open. */
  choices(key, view, fresh) {
    const offers = [
      ["agent", "Agent", fresh ? this.agents : null],
      ["mode", "Mode", modes(view)],
      ["model", "Model", models(view)],
    ].filter(([, , offer]) => offer && offer.options.length > 1);
    const told = JSON.stringify([key, offers]);
    if (told === this.told) return;
    this.told = told;
    const held = document.activeElement?.name;
    byId("choices").replaceChildren(...offers.map(([name, label, offer]) => this.select(key, name, label, offer)));
    if (held) byId("choices").querySelector(`[name="${CSS.escape(held)}"]`)?.focus({ preventScroll: true });
  }

  select(key, name, label, offer) {
    const change = async (event) => {
      if (name === "agent") return this.begin(event.target.value);
      try {
        await ask("PUT", at(key, `/${name}`), { [name]: event.target.value });
      } catch (error) {
        event.target.value = offer.current;
        this.problem(error);
      }
    };
    const options = offer.options.map(({ id, text }) => h("option", { value: id, selected: id === offer.current }, text));
    return h("select", { name, "aria-label": label, title: label, onchange: change }, ...options);
  }
}

// Modes and models have the form of ACP's session modes and models; models may also be an ACP config option.
function modes(view) {
  const told = view.session.value.modes ?? view.items("mode").at(-1)?.modes ?? view.items("mode").at(-1);
  if (!told?.availableModes) return null;
  const alone = view.session.value.unattended_modes ?? [];
  const options = told.availableModes.map(({ id, name }) => ({ id, text: (name || id) + (alone.includes(id) ? " (asks nobody)" : "") }));
  return { current: view.session.value.mode ?? told.currentModeId, options };
}

/** Whether the agent is in a mode in which it decides by itself what it may do. */
function asksNobody(view) {
  return view.session.value.unattended_modes?.includes(modes(view)?.current) ?? false;
}

function models(view) {
  const told = view.session.value.models ?? view.items("mode").at(-1)?.models ?? view.items("model").at(-1);
  const list = told?.availableModels ?? told?.options;
  if (!list) return null;
  const options = list.map((one) => ({ id: one.modelId ?? one.value ?? one.id, text: one.name || one.modelId || one.value }));
  return { current: view.session.value.model ?? told.currentModelId ?? told.currentValue, options };
}

function usage(item) {
  if (!item || !item.size || item.used === undefined) return "";
  return `${Math.round((100 * item.used) / item.size)} % of context used`;
}
