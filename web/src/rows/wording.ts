// Plain words for what the gateway and its own tools are called in the record. Only what is shown changes.

import type { Entry, Item } from "../wire.ts";

/** Semel's own tools: what a call has done, and what it is to do. */
const OWN_TOOLS: Record<string, [done: string, doing: string]> = {
  send_message: ["Sent a message", "Send a message"],
  send_file: ["Sent a file", "Send a file"],
  add_reaction: ["Reacted to a message", "React to a message"],
  edit_message: ["Edited a message", "Edit a message"],
  ask: ["Asked you", "Ask you"],
  schedule: ["Made a schedule", "Make a schedule"],
  list_schedules: ["Listed the schedules", "List the schedules"],
  cancel_schedule: ["Cancelled a schedule", "Cancel a schedule"],
  run_in_background: ["Started a command in the background", "Start a command in the background"],
  list_background: ["Listed the background commands", "List the background commands"],
  cancel_background: ["Ended a background command", "End a background command"],
};

/** How agents write the whole name of a tool of Semel's; as in semel/gateway/turns/permissions.py. */
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

const STOPPED_HERE = new Set(["Stopped by owner.", "Stopped by page."]);

/** The text of an entry that is no agent's, as the owner reads it. */
export const wordsOf = ({ kind, role, text }: Entry): string =>
  role === "notice" && kind === "turn.cancelled" && STOPPED_HERE.has(text) ? "You stopped it." : text;

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
