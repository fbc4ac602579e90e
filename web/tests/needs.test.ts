// The rows of the inbox: none moves, and none goes before it has said how it ended.

import assert from "node:assert/strict";
import { test } from "node:test";
import { mergeNeeds, rowsOf } from "../src/views/needs.ts";
import type { Need, OutgoingPart } from "../src/wire.ts";

const part = (id: number, claim: number): OutgoingPart => ({ id, claim, state: "held", session: "s", channel: "c", dest: "c:1", kind: "post", text: `${id}`, attempts: 1, at: id });
const held = (id: number, claim: number): Need => ({ session: "s", why: "held", at: id, part: part(id, claim) });
const failed = (turn: string, at: number): Need => ({ session: "s", why: "failed", at, turn });

test("the held parts of a message are one row, in their order, as old as the first", () => {
  const rows = rowsOf([held(3, 1), held(4, 2), held(2, 1)]);
  assert.deepEqual(rows.map((row) => [row.need.at, row.parts.map(({ id }) => id)]), [[2, [2, 3]], [4, [4]]]);
});

test("a new row joins the end, and one that is over keeps its place", () => {
  const shown = rowsOf([failed("t1", 5), held(9, 1)]);
  const { rows, gone } = mergeNeeds(shown, [failed("t0", 1), held(9, 1)]);
  assert.deepEqual(rows.map((row) => [row.need.turn, row.over]), [["t1", "This is over."], [undefined, null], ["t0", null]]);
  assert.deepEqual(gone.map((row) => row.need.turn), ["t1"]);
  const again = mergeNeeds(rows, [failed("t0", 1), held(9, 1)]);
  assert.deepEqual([again.rows.length, again.gone.length], [3, 0]);
});

test("what was told of an answer that was not taken stays while the row is open", () => {
  const shown = rowsOf([failed("t1", 5)]).map((row) => ({ ...row, wrong: "no connection" }));
  assert.equal(mergeNeeds(shown, [failed("t1", 5)]).rows[0]!.wrong, "no connection");
});
