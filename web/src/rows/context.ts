// What the rows need of the page around them.

import type { Entry } from "../wire.ts";

/** Whether the owner wrote an entry here, or where they write without a name. */
export const isOwn = ({ role, kind, sender, automatic }: Entry): boolean =>
  role === "user" && !sender && !automatic && (kind === undefined || kind === "message" || kind === "command");

export interface RowContext {
  /** The name of the session's agent. */
  agent: () => string;
  /** The address of the whole output of a tool call. */
  output: (item: number) => string;
  /** Answers a request. Returns whether the gateway took the answer. */
  answer: (item: number, option: string) => Promise<boolean>;
  /** Shows another message of the session. */
  go: (seq: number) => void;
  /** Shows the story of a message: how it came about, and what became of it. */
  why: (seq: number) => void;
  /** Runs the last turn again. */
  retry: () => void;
  /** Quotes a text in the message box. */
  quote: (text: string) => void;
  /** Puts a message of the owner's into the box, to be sent again as a new one. */
  edit: (entry: Entry) => void;
  /** Decides about a held or rejected part. */
  decide: (part: number, verdict: string) => Promise<boolean>;
}
