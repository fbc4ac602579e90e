// Many tool calls one after another are one line, which opens. Thoughts between them belong to it. A row is folded away
// only where the reader sees nothing move: as it comes, or at the end of the conversation (Law 8).

import { signal } from "@preact/signals";
import { Row, isEntry } from "../transcript.ts";
import type { Entry, Item } from "../wire.ts";
import { isOpened, setOpened } from "./opened.ts";

const MIN_CALLS = 5;
const RUNNING = ["pending", "running"];

/** Counts how often the reader opened or closed a line of calls. */
export const turned = signal(0);

export function turnCalls(line: Row): void {
  setOpened(line, !isOpened(line));
  turned.value++;
}

const isCall = (data: Entry | Item): data is Item => !isEntry(data) && data.kind === "tool" && !data.live && !RUNNING.includes(data.status ?? "pending");
const isThought = (data: Entry | Item): boolean => !isEntry(data) && data.kind === "thought" && !data.live;

export class CallFolder {
  /** What is shown: the rows of the view, with a line in front of each run of calls, and without the runs that are closed. */
  rows: readonly Row[] = [];
  private lines = new WeakMap<Row, Row>(); // by the last call of the run: older history may add to its beginning

  /** `isFree`: whether nothing would move for the reader if these rows were folded away. */
  fold(rows: readonly Row[], isFree: (run: readonly Row[]) => boolean): readonly Row[] {
    const drawn = new Set(this.rows);
    const shown: Row[] = [];
    for (let place = 0; place < rows.length; ) {
      const run = runFrom(rows, place);
      const line = run.isOver && this.lineOf(run.rows, () => run.rows.every((row) => !drawn.has(row)) || isFree(run.rows));
      if (line) shown.push(line);
      if (!line || isOpened(line)) shown.push(...run.rows);
      place += run.rows.length;
    }
    return (this.rows = shown);
  }

  private lineOf(run: readonly Row[], mayFold: () => boolean): Row | undefined {
    const last = run.at(-1)!;
    const calls = run.map((row) => row.data.peek()).filter(isCall);
    let line = this.lines.get(last);
    if (!line && (calls.length < MIN_CALLS || run.some(isOpened) || !mayFold())) return undefined;
    const { id, rev, ended_at } = last.data.peek() as Item;
    const failed = calls.filter(({ status }) => status === "failed").length;
    const data: Item = { id, born: run[0]!.born, rev, kind: "calls", text: "", calls: calls.length, failed, at: calls[0]!.at, ended_at };
    line ??= new Row(`c${id}`, data, data.born);
    if (JSON.stringify(line.data.peek()) !== JSON.stringify(data)) line.data.value = data;
    this.lines.set(last, line);
    return line;
  }
}

/** The calls from a place on and the thoughts between them, or the one row there. `isOver`: something else follows them. */
function runFrom(rows: readonly Row[], start: number): { rows: readonly Row[]; isOver: boolean } {
  let end = start;
  let place = start;
  for (; place < rows.length; place++) {
    const data = rows[place]!.data.peek();
    if (isCall(data)) end = place + 1;
    else if (end === start || !isThought(data)) break;
  }
  return { rows: rows.slice(start, Math.max(end, start + 1)), isOver: place < rows.length };
}
