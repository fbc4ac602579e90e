// Each view has its own address.

import assert from "node:assert/strict";
import { test } from "node:test";
import { titleOf, viewOf } from "../src/views/address.ts";

test("an address names a view, or none", () => {
  assert.deepEqual(viewOf("#needs"), { view: "needs" });
  assert.deepEqual(viewOf("#gateway"), { view: "gateway", tab: "status" });
  assert.deepEqual(viewOf("#gateway/jobs"), { view: "gateway", tab: "jobs" });
  for (const other of ["", "#/s/needs", "#needs/x", "#gateway/", "#gateway/toString", "#needsx"]) assert.equal(viewOf(other), null, other);
  assert.equal(titleOf({ view: "gateway", tab: "outbox" }), "Gateway: Outbox");
});
