// Days of a list are those of the reader's calendar.

import assert from "node:assert/strict";
import { test } from "node:test";
import { dayGroup } from "../src/text.ts";

test("a day ends at midnight where the reader is, also on a day of 23 hours", () => {
  const now = new Date(2026, 2, 30, 0, 30); // the night after clocks went forward in Europe
  const at = (...when: [number, number, number, number, number]): number => new Date(...when).getTime();
  assert.equal(dayGroup(at(2026, 2, 30, 0, 0), now), "Today");
  assert.equal(dayGroup(at(2026, 2, 29, 23, 59), now), "Yesterday");
  assert.equal(dayGroup(at(2026, 2, 29, 0, 0), now), "Yesterday");
  assert.equal(dayGroup(at(2026, 2, 28, 23, 59), now), "Older");
});
