// A long output on a phone: its ends are shown, and every character is shown or counted.

import assert from "node:assert/strict";
import { test } from "node:test";
import { lastLine, shortened } from "../src/rows/shortened.ts";

const lines = (count: number): string => Array.from({ length: count }, (_, place) => `line ${place}\n`).join("");

test("a short output is whole, and of a long one the first and last lines are shown", () => {
  const short = { head: lines(20), tail: "", left: 0 };
  assert.equal(shortened(short), short);
  const { head, tail } = shortened({ head: lines(100), tail: "", left: 0 });
  assert.deepEqual([head.split("\n").at(-1), tail.split("\n")[0]], ["line 7", "line 92"]);
});

test("every character is shown or counted", () => {
  const line = "x".repeat(9000);
  for (const whole of [
    { head: lines(100), tail: "", left: 0 },
    { head: lines(100), tail: lines(50), left: 70 },
    { head: line, tail: "", left: 0 },
    { head: line, tail: line, left: 1 },
    { head: `${lines(9)}${line}`, tail: "", left: 0 },
  ]) {
    const { head, tail, left } = shortened(whole);
    assert.equal(head.length + tail.length + left, whole.head.length + whole.tail.length + whole.left);
    assert.ok(whole.head.startsWith(head) && (whole.tail || whole.head).endsWith(tail));
    assert.ok(head.length + tail.length <= 1000);
  }
});

test("the last line that has anything in it is shown, without colours and hidden signs", () => {
  assert.equal(lastLine("one\n\u001b[32m two \u001b[0m\n\n"), "two");
  assert.equal(lastLine("a\u202eb"), "a<U+202E>b");
  assert.equal(lastLine(""), "");
  assert.equal(lastLine(`${"x".repeat(9000)}\n`).length, 200);
});
