// What the rows need of the page around them.

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
  /** Decides about a held or rejected part. */
  decide: (part: number, verdict: string) => Promise<boolean>;
}
