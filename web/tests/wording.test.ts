// Plain words replace the gateway's own, and never a character of an agent's.

import assert from "node:assert/strict";
import { test } from "node:test";
import { ownToolWords, questionText } from "../src/rows/wording.ts";
import type { Item } from "../src/wire.ts";

const item = (more: Partial<Item>): Item => ({ id: 1, born: 1, rev: 1, kind: "tool", text: "", ...more });
const card = (state: Item["state"]): Item => item({ kind: "ask", state, options: [{ optionId: "Tea", name: "Tea" }, { optionId: "No", name: "No" }] });

test("while its card is open, a question leaves out the list that the gateway added, and that alone", () => {
  const asked = "Tea?\n1. Tea\n2. No";
  assert.equal(questionText(asked, card("open")), "Tea?");
  assert.equal(questionText(`Tea?\n1. Tea\n2. No\n1. Tea\n2. No`, card("open")), asked, "the agent's own list stays");
  for (const text of ["Tea?", "Tea?\n1. Tea", `${asked}\n\nReply to this message.`]) assert.equal(questionText(text, card("open")), text);
  assert.equal(questionText(asked, card("answered")), asked, "nothing else shows the options then");
  assert.equal(questionText(asked, undefined), asked);
});

test("a call of a tool of Semel's is told in words, and no call of another tool", () => {
  assert.equal(ownToolWords(item({ title: "mcp__semel__send_file", status: "done" })), "Sent a file");
  assert.equal(ownToolWords(item({ title: "semel_ask", status: "done" })), "Asked you");
  assert.equal(ownToolWords(item({ title: "mcp__semel__send_file", status: "failed" })), "Send a file");
  assert.equal(ownToolWords(item({ title: "mcp__semel__send_file", status: "done", text: "refused: no such file" })), "Send a file");
  for (const title of ["send_file", "mcp__other__send_file", "cat mcp__semel__send_file", "mcp__semel__send_files"]) assert.equal(ownToolWords(item({ title, status: "done" })), null);
  assert.equal(ownToolWords(item({ title: "mcp__semel__ask", tool_kind: "execute" })), null, "a command may have any title");
});
