// Days of a list are those of the reader's calendar; a time in a named zone is the same for all readers; a short time is
// not worth a word.

import assert from "node:assert/strict";
import { test } from "node:test";
import { dayGroup, tookText, zonedTime } from "../src/text.ts";

test("a day ends at midnight where the reader is, also on a day of 23 hours", () => {
  const now = new Date(2026, 2, 30, 0, 30); // the night after clocks went forward in Europe
  const at = (...when: [number, number, number, number, number]): number => new Date(...when).getTime();
  assert.equal(dayGroup(at(2026, 2, 30, 0, 0), now), "Today");
  assert.equal(dayGroup(at(2026, 2, 29, 23, 59), now), "Yesterday");
  assert.equal(dayGroup(at(2026, 2, 29, 0, 0), now), "Yesterday");
  assert.equal(dayGroup(at(2026, 2, 28, 23, 59), now), "Older");
});

test("a time in a zone is written as the gateway's notices write it, in UTC if the zone is not known", () => {
  const at = Date.UTC(2026, 10, 25, 23, 0);
  assert.equal(zonedTime(at, "Europe/Berlin"), "2026-11-26 00:00 Europe/Berlin");
  assert.equal(zonedTime(at), "2026-11-25 23:00 UTC");
  assert.equal(zonedTime(at, "Mars/Olympus"), "2026-11-25 23:00 UTC");
});

test("how long something took is told from a second on, if both of its times are known", () => {
  assert.equal(tookText(0, 499), "");
  assert.equal(tookText(0, 12_400), "12s");
  assert.equal(tookText(0, 120_000), "2m");
  assert.equal(tookText(0, 125_000), "2m 5s");
  assert.equal(tookText(undefined, 5000), "");
});
