// The order of what leaves.

import assert from "node:assert/strict";
import { test } from "node:test";
import { byDestination } from "../src/views/destinations.ts";
import type { OutgoingPart } from "../src/wire.ts";

const part = (id: number, dest: string, at: number) => ({ id, dest, at }) as OutgoingPart;

test("what leaves stands at its destination, the first to leave first", () => {
  const parts = [part(5, "b", 50), part(4, "a", 40), part(3, "b", 30), part(2, "b", 30), part(1, "a", 10)];
  assert.deepEqual(byDestination(parts).map(([dest, those]) => [dest, those.map(({ id }) => id)]), [["a", [1, 4]], ["b", [2, 3, 5]]]);
  assert.deepEqual(byDestination([]), []);
});
