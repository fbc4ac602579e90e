import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";
import { Watch, sessionStream } from "../src/stream.ts";
import type { Frame } from "../src/wire.ts";
import { EventSourceDouble, type Request, installDoubles, settle } from "./browser_double.ts";

let requests: Request[];
let links: string[];
let frames: Frame[];
let rev: number | null;
let watch: Watch;

beforeEach(() => {
  mock.timers.enable({ apis: ["setTimeout", "setInterval", "Date"] });
  requests = installDoubles();
  links = [];
  frames = [];
  rev = null;
  watch = new Watch(sessionStream("a b"), { tell: (frame) => frames.push(frame), link: (state) => links.push(state), rev: () => rev });
});

afterEach(() => {
  watch.close();
  mock.timers.reset();
});

const last = (): EventSourceDouble => EventSourceDouble.opened.at(-1)!;

test("frames come in order, and a new connection goes on after the last rev", async () => {
  assert.equal(last().url, "/v1/sessions/a%20b/stream?ping=1");
  last().send("snapshot", { type: "snapshot", rev: 5 });
  last().send("change", { type: "change", rev: 6 });
  assert.deepEqual(frames.map((frame) => frame.rev), [5, 6]);
  rev = 6;
  last().fail(true);
  mock.timers.tick(500);
  requests[0]!.answer(200, {});
  await settle();
  assert.match(last().url, /&after=6$/);
});

test("a connection on which nothing comes for two and a half pings is replaced", () => {
  last().send("ping", { every_ms: 2000 });
  last().send("snapshot", { type: "snapshot", rev: 5 });
  mock.timers.tick(5000);
  assert.equal(EventSourceDouble.opened.length, 1);
  assert.equal(links.at(-1), "live");
  mock.timers.tick(1000);
  assert.equal(EventSourceDouble.opened.length, 2);
  assert.equal(links.at(-1), "lost");
});

test("a long first frame over a slow line gets its time, and nobody says meanwhile that the line is live", () => {
  last().send("ping", { every_ms: 2000 });
  mock.timers.tick(6000);
  assert.equal(links.at(-1), "lost");
  mock.timers.tick(30000);
  assert.equal(EventSourceDouble.opened.length, 1);
  assert.equal(requests.length, 0, "nothing else takes a part of the line");
  last().send("snapshot", { type: "snapshot", rev: 5 });
  assert.equal(links.at(-1), "live");
});

test("a lost line is tried every few seconds, at once if there is reason to, and replaced as soon as it is whole", async () => {
  mock.timers.tick(41000);
  assert.equal(EventSourceDouble.opened.length, 2);
  mock.timers.tick(6000);
  assert.equal(requests.length, 1, "the gateway is asked");
  requests[0]!.lose();
  await settle();
  mock.timers.tick(7000);
  assert.equal(requests.length, 1, "and again");
  dispatchEvent(new Event("online"));
  assert.equal(requests.length, 2, "at once");
  assert.equal(EventSourceDouble.opened.length, 2, "a slow connection is not given up for a gateway out of reach");
  requests[1]!.answer(200, {});
  await settle();
  assert.equal(EventSourceDouble.opened.length, 3);
  requests[0]!.answer(200, {});
  await settle();
  mock.timers.tick(30000);
  assert.equal(EventSourceDouble.opened.length, 3, "the new connection has its time");
  last().send("ping", { every_ms: 15000 });
  dispatchEvent(new Event("focus"));
  assert.equal(requests.length, 0, "a line that lives is not asked about");
  assert.deepEqual(links.slice(-2), ["lost", "live"]);
});

test("a session that is no more is watched no longer", async () => {
  rev = 3;
  last().fail(true);
  mock.timers.tick(500);
  requests[0]!.answer(404, {});
  await settle();
  assert.equal(links.at(-1), "gone");
  mock.timers.tick(60000);
  assert.equal(EventSourceDouble.opened.length, 1);
});

test("a session that does not exist yet is watched as soon as it does", async () => {
  last().fail(true);
  mock.timers.tick(500);
  requests[0]!.answer(404, {});
  await settle();
  assert.equal(links.at(-1), "new");
  watch.hurry();
  assert.equal(EventSourceDouble.opened.length, 2);
});

test("a closed watch opens nothing more", async () => {
  last().fail(true);
  watch.close();
  mock.timers.tick(60000);
  await settle();
  assert.equal(EventSourceDouble.opened.length, 1);
});
