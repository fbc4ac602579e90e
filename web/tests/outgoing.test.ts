import assert from "node:assert/strict";
import { beforeEach, mock, test } from "node:test";
import { Outgoing } from "../src/outgoing.ts";
import type { Entry } from "../src/wire.ts";
import { type Request, installDoubles, settle } from "./browser_double.ts";

let requests: Request[];
let accepted: string[];

beforeEach(() => {
  mock.timers.reset();
  requests = installDoubles();
  accepted = [];
});

const make = (): Outgoing => new Outgoing({ accepted: (_, message) => accepted.push(message.text), changed: () => {} });
const texts = (outgoing: Outgoing): string[] => outgoing.shown("s").map((one) => `${one.text}: ${one.state}`);
const entry = (text: string, event: number, born: number): Entry => ({ seq: 1, born, rev: born, at: 0, role: "user", text, event });

test("a message whose answer was lost is sent again under its first id", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const outgoing = make();
  outgoing.add("s", "hello", 4);
  const { id } = requests[0]!.body;
  requests[0]!.lose();
  await settle();
  assert.deepEqual(texts(outgoing), ["hello: waiting"]);
  mock.timers.tick(500);
  assert.equal(requests[0]!.body.id, id);
  requests[0]!.answer(202, { event: 7 });
  await settle();
  assert.deepEqual(accepted, ["hello"]);
});

test("what waits on a line that was lost is sent again, under its id, as soon as there is a new one", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const outgoing = make();
  outgoing.add("s", "hello", 4);
  const { id } = requests[0]!.body;
  outgoing.resendWaiting();
  await settle();
  mock.timers.tick(500);
  assert.deepEqual(requests.map(({ body }) => body.id), [id]);
  requests[0]!.answer(202, { event: 7 });
  await settle();
  assert.deepEqual(accepted, ["hello"]);
});

test("a message leaves, and is sent again on a new line, in a browser without AbortSignal.any", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const { any } = AbortSignal;
  Object.assign(AbortSignal, { any: undefined });
  const outgoing = make();
  outgoing.add("s", "hello", 4);
  Object.assign(AbortSignal, { any });
  const [first] = requests;
  outgoing.resendWaiting();
  await settle();
  mock.timers.tick(500);
  assert.deepEqual(requests.map(({ body }) => body.id), [first?.body.id]);
  assert.notEqual(requests[0], first);
});

test("messages of a session leave one after another, in order", async () => {
  const outgoing = make();
  outgoing.add("s", "one", 4);
  outgoing.add("s", "two", 4);
  assert.deepEqual(requests.map(({ body }) => body.text), ["one"]);
  requests[0]!.answer(202, { event: 7 });
  await settle();
  assert.deepEqual(requests.map(({ body }) => body.text), ["two"]);
});

test("a reload sends what was not acknowledged, with the same id, and nothing else", async () => {
  const outgoing = make();
  outgoing.add("s", "one", 4);
  outgoing.add("s", "two", 4);
  const { id } = requests[0]!.body;
  requests[0]!.answer(202, { event: 7 });
  await settle();
  const second = requests[0]!.body.id;
  assert.notEqual(second, id);
  requests.length = 0;
  const reloaded = make();
  assert.deepEqual(texts(reloaded), ["two: waiting"]);
  reloaded.kickAll();
  assert.deepEqual(requests.map(({ body }) => body.id), [second]);
});

test("a message that the gateway refuses stays, says why, and lets the next one leave", async () => {
  const outgoing = make();
  outgoing.add("s", "too long", 4);
  outgoing.add("s", "next", 4);
  requests[0]!.answer(422, { type: "urn:semel:problem:bad-field", detail: "It is too long." });
  await settle();
  assert.equal(outgoing.shown("s")[0]!.why, "It is too long.");
  assert.deepEqual(requests.map(({ body }) => body.text), ["next"]);
});

test("a message whose request broke off on its way is sent again under its first id, before the next one", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const outgoing = make();
  outgoing.add("s", "one", 4);
  outgoing.add("s", "two", 4);
  const { id } = requests[0]!.body;
  requests[0]!.answer(400, {}); // of the HTTP server, which does not know whose request that was
  await settle();
  assert.deepEqual(texts(outgoing), ["one: waiting", "two: sending"]);
  mock.timers.tick(500);
  assert.deepEqual(requests.map(({ body }) => body.id), [id]);
});

test("without a login a message waits until somebody logs in", async () => {
  const outgoing = make();
  outgoing.add("s", "hello", 4);
  requests[0]!.answer(401, {});
  await settle();
  assert.deepEqual(texts(outgoing), ["hello: waiting"]);
  outgoing.kickAll();
  assert.equal(requests.length, 1);
});

test("a message is shown once if the stream is faster than the answer", async () => {
  const settling: Outgoing = new Outgoing({ accepted: (key, message) => settling.settle(key, message, true), changed: () => {} });
  settling.add("s", "hello", 4);
  settling.seen("s", [entry("hello", 7, 5)]);
  assert.deepEqual(texts(settling), []);
  requests[0]!.answer(202, { event: 7 });
  await settle();
  assert.deepEqual(texts(settling), []);
});

test("a message is shown once if the answer is faster than the stream", async () => {
  const outgoing = make();
  outgoing.add("s", "hello", 4);
  requests[0]!.answer(202, { event: 8 });
  await settle();
  assert.deepEqual(texts(outgoing), ["hello: accepted"]);
  outgoing.seen("s", [entry("hello", 8, 7)]);
  assert.deepEqual(texts(outgoing), []);
});

test("an older entry with the same text does not count as the message", () => {
  const outgoing = make();
  outgoing.add("s", "ha", 9);
  outgoing.seen("s", [entry("ha", 3, 5)]);
  assert.deepEqual(texts(outgoing), ["ha: sending"]);
});

test("only a message that no request has carried, or that was refused, is taken back", async () => {
  const outgoing = make();
  outgoing.add("s", "one", 4);
  outgoing.add("s", "two", 4);
  const [one, two] = outgoing.shown("s");
  assert.equal(outgoing.takeBack("s", one!), false);
  assert.equal(outgoing.takeBack("s", two!), true);
  requests[0]!.lose();
  await settle();
  assert.equal(outgoing.takeBack("s", one!), false, "its answer was lost: the gateway may have it");
  assert.deepEqual(texts(make()), ["one: waiting"]);
  const reloaded = make();
  assert.equal(reloaded.isHere("s", reloaded.shown("s")[0]!), false, "nor after a reload");
  outgoing.again("s", one!);
  requests[0]!.answer(404, { type: "not-found", title: "gone" });
  await settle();
  assert.deepEqual(texts(outgoing), ["one: refused"]);
  const { id } = one!;
  outgoing.again("s", one!);
  assert.equal(requests[0]!.body.id, id, "sent again under its id, so that it is heard once");
  requests[0]!.answer(400, { type: "bad-field", title: "no" });
  await settle();
  assert.equal(outgoing.takeBack("s", one!), true);
  assert.deepEqual(texts(outgoing), []);
});

test("a message that one tab has taken back leaves from no other, and one that another has tried is not taken back", async () => {
  const outgoing = make();
  for (const text of ["one", "two", "three"]) outgoing.add("s", text, 4);
  const other = make();
  const [, two, three] = outgoing.shown("s");
  assert.equal(outgoing.takeBack("s", two!), true);
  requests[0]!.lose();
  await settle();
  other.kickAll();
  assert.equal(requests[0]!.body.text, "one");
  requests[0]!.answer(202, { event: 7 });
  await settle();
  assert.deepEqual(requests.map(({ body }) => body.text), ["three"]);
  assert.equal(outgoing.takeBack("s", three!), false);
  requests[0]!.answer(202, { event: 8 });
  await settle();
  assert.equal(outgoing.takeBack("s", three!), false, "also once the other tab has forgotten it");
});
