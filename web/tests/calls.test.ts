import assert from "node:assert/strict";
import { test } from "node:test";
import { CallFolder } from "../src/rows/calls.ts";
import { setOpened } from "../src/rows/opened.ts";
import { Row } from "../src/transcript.ts";
import type { Entry, Item } from "../src/wire.ts";

const call = (id: number, status = "done"): Row =>
  new Row(`i${id}`, { id, born: id, rev: id, kind: "tool", text: "", status, at: 1000 * id, ended_at: 1000 * id + 500 } as Item, id);
const thought = (id: number): Row => new Row(`i${id}`, { id, born: id, rev: id, kind: "thought", text: "hm" } as Item, id);
const said = (seq: number): Row => new Row(`e${seq}`, { seq, born: seq, rev: seq, at: 0, role: "agent", text: "so" } as Entry, seq);
const keys = (rows: readonly Row[]): string => rows.map(({ key }) => key).join(" ");
const five = (from: number): Row[] => [0, 1, 2, 3, 4].map((more) => call(from + more));
const moves = (): boolean => false;

test("calls one after another become one line once something follows them, with the thoughts between them", () => {
  const folder = new CallFolder();
  const run = [call(1), call(2, "failed"), thought(3), call(4), call(5), call(6)];
  assert.equal(keys(folder.fold(run, () => true)), keys(run), "the agent may go on");
  const [line, ...rest] = folder.fold([...run, thought(7), said(8)], () => true);
  assert.equal(keys(rest), "i7 e8");
  const { calls, failed, at, ended_at } = line!.data.peek() as Item;
  assert.deepEqual({ calls, failed, at, ended_at }, { calls: 5, failed: 1, at: 1000, ended_at: 6500 });
});

test("rows that the reader saw one by one are folded only where nothing moves, and never one that was opened", () => {
  const folder = new CallFolder();
  const run = five(1);
  folder.fold(run, moves);
  assert.equal(keys(folder.fold([...run, said(9)], moves)), "i1 i2 i3 i4 i5 e9");
  setOpened(run[2]!, true);
  assert.equal(keys(folder.fold([...run, said(9)], () => true)), "i1 i2 i3 i4 i5 e9");
  setOpened(run[2]!, false);
  assert.equal(keys(folder.fold([...run, said(9)], () => true)), "c5 e9");
});

test("a line stays as it is while older history joins it, and opens above its calls", () => {
  const folder = new CallFolder();
  const run = [...five(5), said(10)];
  const [line] = folder.fold(run, moves);
  assert.equal(folder.fold([call(4), ...run], moves)[0], line);
  setOpened(line!, true);
  assert.equal(keys(folder.fold([call(4), ...run], moves)), "c9 i4 i5 i6 i7 i8 i9 e10");
});

test("a few calls, and calls that still run, are not folded", () => {
  const folder = new CallFolder();
  assert.equal(keys(folder.fold([call(1), call(2), call(3), call(4), said(5)], moves)), "i1 i2 i3 i4 e5");
  assert.equal(keys(folder.fold([...five(1), call(6, "running"), said(7)], moves)), "c5 i6 e7");
});
