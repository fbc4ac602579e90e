import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";
import { commandBegun, commandsLike } from "../src/commands.ts";
import { SessionList, needsOf } from "../src/session_list.ts";
import type { ListedSession } from "../src/wire.ts";
import { EventSourceDouble, type Request, installDoubles, settle } from "./browser_double.ts";

let requests: Request[];
let list: SessionList;

beforeEach(async () => {
  mock.timers.enable({ apis: ["setTimeout", "setInterval", "Date"] });
  requests = installDoubles();
  list = new SessionList();
  void list.refresh();
  requests[0]!.answer(200, { sessions: [session("a", 1), session("b", 2)], more: false });
  await settle();
});

afterEach(() => mock.timers.reset());

const session = (key: string, at: number, more: Partial<ListedSession> = {}): ListedSession => ({ key, at, rev: at, last: "", ...more });
const keys = (): string[] => list.sorted.value.map((one) => one.key);
const stream = (): EventSourceDouble => EventSourceDouble.opened.at(-1)!;

test("the list comes as a stream: rows change, come and go, and the newest stands first", () => {
  assert.deepEqual(keys(), ["b", "a"]);
  assert.equal(stream().url, "/v1/stream?ping=1");
  stream().send("snapshot", { type: "snapshot", rev: 5, sessions: [session("a", 1), session("b", 2)], more: false });
  stream().send("change", { type: "change", rev: 6, changes: [{ op: "session", ...session("a", 3) }, { op: "session", ...session("c", 1) }] });
  assert.deepEqual(keys(), ["a", "b", "c"]);
  stream().send("change", { type: "change", rev: 7, changes: [{ op: "gone", key: "b" }, { op: "session", ...session("c", 4, { archived: true }) }] });
  assert.deepEqual(keys(), ["a"]);
});

test("while it streams, nothing is asked for", () => {
  list.soon();
  mock.timers.tick(60000);
  assert.deepEqual(requests.map(({ path }) => path), []);
});

test("who needs somebody is known by requests, questions, held parts and failed turns", () => {
  const needy = session("b", 2, { approvals: 1, questions: 1, held: 2, failed: "no" });
  assert.equal(needsOf(needy), 5);
  assert.equal(needsOf(session("a", 1, { unread: 3 })), 0);
  stream().send("change", { type: "change", rev: 6, changes: [{ op: "session", ...needy }] });
  assert.deepEqual(list.needy.value.map((one) => one.key), ["b"]);
});

test("while the archived sessions are listed, the others go on: which of them need somebody is known", async () => {
  stream().send("snapshot", { type: "snapshot", rev: 5, sessions: [session("a", 1)], more: false });
  list.toggleArchived();
  assert.match(requests[0]!.path, /archived=1/);
  requests[0]!.answer(200, { sessions: [session("old", 0, { archived: true })], more: false });
  await settle();
  assert.deepEqual(keys(), ["old"]);
  stream().send("change", { type: "change", rev: 6, changes: [{ op: "session", ...session("a", 9, { approvals: 1 }) }] });
  assert.deepEqual(keys(), ["old"]);
  assert.deepEqual([list.needed.value, list.needy.value.map((one) => one.key)], [1, ["a"]]);
  list.toggleArchived();
  assert.deepEqual(keys(), ["a"]);
});

test("of others that the stream does not tell all of, the list is asked for beside the archived sessions", async () => {
  list.toggleArchived();
  list.showMore();
  assert.deepEqual(requests.slice(-2).map(({ path }) => path), ["/v1/sessions?limit=400&archived=1", "/v1/sessions?limit=400"]);
  requests.at(-1)!.answer(200, { sessions: [session("a", 1, { held: 1 })], more: false });
  requests.at(-1)!.answer(200, { sessions: [session("old", 0, { archived: true })], more: false });
  await settle();
  assert.deepEqual([keys(), list.needed.value], [["old"], 1]);
});

test("a command is completed until its argument begins", () => {
  assert.deepEqual(["/", "/st", "//model", "/stop now", "a/b", "/a/b", ""].map(commandBegun), ["/", "/st", "//model", null, null, null, null]);
  const commands = ["/status", "/stop", "/steer"].map((text) => ({ name: text.slice(1), by: "gateway" as const, text }));
  assert.deepEqual(commandsLike("/st", commands).map(({ text }) => text), ["/status", "/stop", "/steer"]);
  assert.deepEqual(commandsLike("/STO", commands).map(({ text }) => text), ["/stop"]);
});

test("a list that could not be fetched does not count as an empty one", async () => {
  const other = new SessionList();
  void other.refresh();
  requests.at(-1)!.answer(503, { detail: "away" });
  await settle();
  assert.equal(other.isFetched.value, false);
  void other.refresh();
  requests.at(-1)!.answer(200, { sessions: [], more: false });
  await settle();
  assert.equal(other.isFetched.value, true);
});
