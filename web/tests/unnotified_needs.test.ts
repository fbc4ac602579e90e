// Notifications of needs: once in all tabs, at once while nobody looks, and a while after the reader has left.

import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";
import { AWAY_MS, UnnotifiedNeeds, noteLeaving } from "../src/unnotified_needs.ts";
import { installDoubles } from "./browser_double.ts";

beforeEach(() => {
  mock.timers.enable({ apis: ["Date"], now: 1e12 });
  installDoubles();
});

afterEach(() => mock.timers.reset());

const one = new Map([["a", 1]]);

test("what the reader saw is notified a while after they left, and only once, in whichever tab", () => {
  const tab = new UnnotifiedNeeds();
  const other = new UnnotifiedNeeds();
  for (const each of [tab, other]) each.take(one); // while somebody looks
  noteLeaving();
  assert.deepEqual(tab.take(one).due, []);
  mock.timers.tick(AWAY_MS);
  assert.deepEqual([tab.due(), other.take(one).due], [["a"], ["a"]]);
  tab.keepNotified("a", 1);
  assert.deepEqual([tab.due(), other.due(), other.take(one).due, new UnnotifiedNeeds().take(one).due], [[], [], [], []]);
});

test("what comes after the reader has left is due at once, one more too, and one that comes after it was answered", () => {
  const tab = new UnnotifiedNeeds();
  tab.take(new Map());
  noteLeaving();
  assert.deepEqual(tab.take(one), { due: ["a"], over: [] });
  tab.keepNotified("a", 1);
  assert.deepEqual(tab.take(new Map([["a", 2]])).due, ["a"]);
  assert.deepEqual(tab.take(new Map()), { due: [], over: ["a"] });
  assert.deepEqual(tab.take(one).due, ["a"]);
});

test("that a need was notified, and is over before this is known, does not silence the next one", () => {
  const tab = new UnnotifiedNeeds();
  tab.take(one);
  tab.take(new Map());
  tab.keepNotified("a", 1);
  assert.deepEqual(tab.take(one).due, ["a"]);
});
