// Plain words for what the gateway and its own tools are called in the record. Only what is shown changes.

import type { Entry, Item } from "../wire.ts";
import { t } from "../texts.ts";

/** Semel's own tools: what a call has done, and what it is to do. */
const OWN_TOOLS: Record<string, [done: string, doing: string]> = {
  send_message: [t("Sent a message"), t("Send a message")],
  send_file: [t("Sent a file"), t("Send a file")],
  add_reaction: [t("Reacted to a message"), t("React to a message")],
  edit_message: [t("Edited a message"), t("Edit a message")],
  ask: [t("Asked you"), t("Ask you")],
  schedule: [t("Made a schedule"), t("Make a schedule")],
  list_schedules: [t("Listed the schedules"), t("List the schedules")],
  cancel_schedule: [t("Cancelled a schedule"), t("Cancel a schedule")],
  run_in_background: [t("Started a command in the background"), t("Start a command in the background")],
  list_background: [t("Listed the background commands"), t("List the background commands")],
  cancel_background: [t("Ended a background command"), t("End a background command")],
};

/** How agents write the whole name of a tool of Semel's; as in semel/acp_stream/own_tools.py. */
const FORMS: ((tool: string) => string)[] = [
  (tool) => `mcp__semel__${tool}`,
  (tool) => `mcp.semel.${tool}`,
  (tool) => `Tool: semel/${tool}`,
  (tool) => `semel_${tool}`,
  (tool) => `semel/${tool}`,
  (tool) => `mcp_semel_${tool}`,
  (tool) => `mcp_semel.${tool}`,
  (tool) => `${tool} (semel MCP Server)`,
  (tool) => `semel-${tool}`,
];
const OWN_NAMES = new Map(Object.keys(OWN_TOOLS).flatMap((tool) => FORMS.map((form) => [form(tool), tool])));

/** What a call of one of Semel's own tools does, in words; null if it is another tool. */
export function ownToolWords({ title, name, tool_kind: kind, status, text }: Item): string | null {
  const tool = kind === "execute" ? undefined : OWN_NAMES.get(title || name || "");
  if (tool === undefined) return null;
  const [done, doing] = OWN_TOOLS[tool]!;
  return status === "done" && !text.startsWith("refused: ") ? done : doing;
}

const CALM_NOTICES = new Set(["turn.cancelled", "turn.attached", "schedule.missed", "agent.replaced", "delivery.dropped"]);

/** Whether nobody has to act because of a notice. */
export const isCalm = ({ role, kind }: Entry): boolean => role === "notice" && CALM_NOTICES.has(kind ?? "");

const STOPPED_HERE = new Set(["Stopped by the owner.", "Stopped by owner.", "Stopped by page."]); // as it was written once, too

/** Whether the name of who did something is the owner's, who reads the page. */
export const isOwner = (name: string): boolean => name === "the owner" || name === "owner"; // the second: as it was written once

/** The text of an entry that is no agent's, as the owner reads it. */
export const wordsOf = ({ kind, role, text }: Entry): string =>
  role === "notice" && kind === "turn.cancelled" && STOPPED_HERE.has(text) ? t("You stopped it.") : text;

/**
 * The text of a question. While its card shows the options as buttons, the numbered list is left out that the gateway
 * put below the agent's words; as in semel/gateway/tools/tool_calls.py.
 */
export function questionText(text: string, card: Item | undefined): string {
  if (card?.state !== "open" || !card.options?.length) return text;
  const name = (option: unknown): string => (typeof option === "string" ? option : String((option as { name?: string }).name));
  const list = card.options.map((option, place) => `\n${place + 1}. ${name(option)}`).join("");
  return text.endsWith(list) ? text.slice(0, -list.length) : text;
}
