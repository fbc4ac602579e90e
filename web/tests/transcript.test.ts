import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { beforeEach, test } from "node:test";
import { Transcript, isEntry } from "../src/transcript.ts";
import type { Changes, Entry, Frame, Item, Snapshot } from "../src/wire.ts";

const recorded = (name: string): Frame[] => JSON.parse(readFileSync(new URL(`frames/${name}.json`, import.meta.url), "utf8"));
const entry = (seq: number, more: Partial<Entry> = {}): Entry => ({ seq, born: seq, rev: seq, at: 0, role: "agent", text: `t${seq}`, ...more });
const item = (id: number, kind: string, more: Partial<Item> = {}): Item => ({ id, kind, born: id, rev: id, text: "", ...more });
const snapshot = (rev: number, entries: Entry[], items: Item[] = [], more = false): Snapshot => ({ type: "snapshot", rev, session: {}, entries, items, more, before: entries[0]?.seq });
const change = (rev: number, ...changes: Changes["changes"]): Changes => ({ type: "change", rev, changes });
const keys = (view: Transcript): string[] => view.shown.value.map((row) => row.key);

let view: Transcript;
beforeEach(() => {
  view = new Transcript();
});

for (const name of ["permission", "ask", "stream"]) {
  test(`recorded frames, whole or cut anywhere and resumed, give one view: ${name}`, () => {
    const frames = recorded(name);
    for (const frame of frames) view.apply(frame);
    const whole = view.shown.value.map((row) => row.data.value);
    for (let cut = 1; cut < frames.length; cut++) {
      const resumed = new Transcript();
      for (const frame of [...frames.slice(0, cut), ...frames.slice(Math.max(1, cut - 3))]) resumed.apply(frame);
      assert.deepEqual(resumed.shown.value.map((row) => row.data.value), whole);
    }
  });
}

test("the text of an entry that streamed is that of its pieces, and of the final entry", () => {
  const frames = recorded("stream");
  const texts: string[] = [];
  for (const frame of frames) {
    view.apply(frame);
    const last = view.shown.value.at(-1)?.data.value;
    if (last && isEntry(last) && last.role === "agent") texts.push(last.text);
  }
  assert.ok(texts.length > 2);
  for (const text of texts) assert.ok(texts.at(-1)!.startsWith(text));
});

test("an entry becomes final once", () => {
  view.apply(snapshot(1, [entry(1)]));
  assert.deepEqual(view.apply(change(2, { op: "entry", ...entry(2, { live: true }) })), []);
  assert.deepEqual(view.apply(change(3, { op: "entry", ...entry(2, { rev: 3 }) })).map(({ seq }) => seq), [2]);
  assert.deepEqual(view.apply(change(4, { op: "entry", ...entry(2, { rev: 4, echoes: 1 }) })), []);
});

test("a change that was seen before is not applied again", () => {
  view.apply(snapshot(5, [entry(1, { live: true, text: "a" })]));
  view.apply(change(6, { op: "append", rev: 6, seq: 1, text: "b" }));
  view.apply(change(7, { op: "append", rev: 6, seq: 1, text: "b" }, { op: "append", rev: 7, seq: 1, text: "c" }));
  assert.equal(view.rows.get("e1")!.data.value.text, "abc");
});

test("rows stand by where they were born, whenever they come", () => {
  view.apply(snapshot(9, [entry(3), entry(9)], [item(5, "tool")], true));
  view.apply(change(12, { op: "item", ...item(4, "thought", { rev: 12 }) }));
  view.prepend({ entries: [entry(1)], items: [item(2, "notice")], more: false });
  assert.deepEqual(keys(view), ["e1", "i2", "e3", "i4", "i5", "e9"]);
  assert.equal(view.before.value, null);
});

test("a snapshot keeps the older rows that join it, and no others", () => {
  view.apply(snapshot(9, [entry(3), entry(4)], [], true));
  view.apply(snapshot(20, [entry(5), entry(6)], [], true));
  assert.deepEqual(keys(view), ["e3", "e4", "e5", "e6"]);
  assert.equal(view.before.value, 3);
  view.apply(snapshot(40, [entry(9)], [], true));
  assert.deepEqual(keys(view), ["e9"]);
  assert.equal(view.before.value, 9);
});

test("the outcome of a request is shown by the row of its call, whichever comes first", () => {
  const open = item(2, "permission", { state: "open", title: "Edit a", call: "c1" });
  view.apply(snapshot(2, [entry(1)], [open]));
  assert.deepEqual(keys(view), ["e1", "i2"]);
  view.apply(change(3, { op: "item", ...item(3, "tool", { title: "Edit a", call: "c1" }) }));
  assert.deepEqual(keys(view), ["e1", "i2", "i3"]);
  view.apply(change(4, { op: "item", ...open, rev: 4, state: "answered", answer: "y" }));
  assert.deepEqual(keys(view), ["e1", "i3"]);
  assert.equal(view.rows.get("i3")!.request.value!.key, "i2");
});

test("a question's buttons stand below the question", () => {
  const options = [{ optionId: "a" }];
  view.apply(snapshot(9, [entry(2), entry(4, { kind: "ask", item: 1 }), entry(6)], [item(1, "ask", { options })]));
  assert.deepEqual(keys(view), ["e2", "e4", "i1", "e6"]);
});

test("messages that wait know their place in line", () => {
  view.whys.set(8, "the agent reads no second message");
  view.apply(snapshot(9, [entry(1), entry(2, { role: "user", waiting: "queue" }), entry(3, { role: "user", waiting: "queue", event: 8 })]));
  const lines = () => [2, 3].map((seq) => view.rows.get(`e${seq}`)!.line.value);
  assert.deepEqual(lines(), ["queued, 1st in line", "queued, 2nd in line: the agent reads no second message"]);
  view.apply(change(10, { op: "entry", ...entry(2, { rev: 10, role: "user" }) }));
  assert.deepEqual(lines(), ["", "queued, 1st in line: the agent reads no second message"]);
});

const turnsOf = (first: number, last: number): Entry[] =>
  Array.from({ length: last - first + 1 }, (_, place) => entry(first + place, { role: place % 2 ? "agent" : "user" }));

test("a view that is followed lets its oldest rows go, which then are older history", () => {
  view.apply(snapshot(1, turnsOf(1, 2)));
  for (let seq = 3; seq <= 1500; seq += 2) view.apply(change(seq, ...turnsOf(seq, seq + 1).map((one) => ({ op: "entry" as const, ...one }))));
  assert.equal(view.trim(), false);
  view.apply(change(1501, { op: "entry", ...entry(1501, { role: "user" }) }));
  assert.equal(view.trim(), true);
  assert.deepEqual([keys(view)[0], keys(view).length, view.before.value], ["e501", 1001, 501]);
  view.prepend({ entries: turnsOf(301, 500), items: [], more: true, before: 301 });
  assert.deepEqual([keys(view)[0], keys(view).length, view.before.value], ["e301", 1201, 301]);
});

test("no row goes while one in front of it waits for a person", () => {
  view.apply(snapshot(1, turnsOf(1, 1600), [item(7, "permission", { born: 20.5, state: "open" })]));
  assert.equal(view.trim(), true);
  assert.deepEqual(keys(view).slice(0, 3), ["e19", "e20", "i7"]);
});

test("a change of a row that is older history is not shown without what stands around it", () => {
  view.apply(snapshot(30, [entry(20), entry(21)], [], true));
  view.apply(change(31, { op: "entry", ...entry(5, { rev: 31 }) }, { op: "item", ...item(6, "tool", { rev: 31 }) }));
  assert.deepEqual(keys(view), ["e20", "e21"]);
});
