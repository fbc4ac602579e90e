// The story of a message is told in steps.

import assert from "node:assert/strict";
import { test } from "node:test";
import { stepsOf } from "../src/views/story.ts";

const told = (...texts: string[]) => stepsOf({ ref: "c1", kind: "claim", lines: texts.map((text, at) => ({ at, text })) });

test("each row is named where its steps begin, and a line without a row belongs to the row before", () => {
  const steps = told("e2: accepted message at web:s: 'go: now'", "recorded in s as entry 1", "t2: attempt 1 began", "c1: text 'a\nb' -> said, entry 2", "p1: part 1 queued", "p2: part 2 queued", "job-1: it began");
  assert.deepEqual(steps.map(({ stage, text }) => [stage, text]), [
    ["Heard e2", "Accepted message at web:s: 'go: now'"],
    ["", "Recorded in s as entry 1"],
    ["Turn t2", "Attempt 1 began"],
    ["Decided c1", "Text 'a\nb' → said, entry 2"],
    ["Delivery p1", "Part 1 queued"],
    ["Delivery p2", "Part 2 queued"],
    ["", "job-1: it began"],
  ]);
});

test("what went wrong and what arrived is marked; words that were said are not", () => {
  const steps = told("t1: failed: no credit left", "p1: sent, receipt 7", "p2: held", "e1: accepted message at web:s: 'it failed'", "c1: text 'sent' -> said, entry 2");
  assert.deepEqual(steps.map(({ outcome }) => outcome), ["bad", "good", "bad", "", ""]);
});
