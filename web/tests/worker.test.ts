// The service worker: it shows a notification unless somebody looks at the page, leads to its session, and answers nothing.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import vm from "node:vm";

interface FakePage {
  url: string;
  visibilityState: "visible" | "hidden";
}

/** A worker with these pages open, the one used last first, and what it did. */
function started(...pages: FakePage[]) {
  const done: unknown[] = [];
  const notifications = new Map<string, unknown>(); // by tag, those on the screen: their data
  const handlers: Record<string, (event: unknown) => void> = {};
  const open = pages.map((page) => ({ ...page, postMessage: (message: unknown) => done.push(message), focus: () => done.push(`focus ${page.url}`) }));
  vm.runInNewContext(readFileSync("worker.js", "utf8"), {
    URL,
    addEventListener: (name: string, handler: (event: unknown) => void) => (handlers[name] = handler),
    clients: { matchAll: async () => open, openWindow: async (address: string) => done.push(address) },
    registration: {
      getNotifications: async ({ tag }: { tag: string }) =>
        notifications.has(tag) ? [{ data: notifications.get(tag), close: () => notifications.delete(tag) && done.push(`closed ${tag}`) }] : [],
      showNotification: async (title: string, { body, tag, data }: { body: string; tag: string; data: unknown }) => {
        notifications.set(tag, data);
        done.push(`${title}: ${body}`);
      },
    },
  });
  const tell = async (name: string, event: object): Promise<unknown[]> => {
    let left: Promise<unknown> = Promise.resolve();
    handlers[name]!({ ...event, waitUntil: (promise: Promise<unknown>) => (left = promise) });
    await left;
    return JSON.parse(JSON.stringify(done));
  };
  return { handlers, tell };
}

const TAG = "#/s/a/open";
const need = (count: number) => ({ data: { show: { tag: TAG, title: "a needs you", body: `${count} open` }, told: ["a", count] } });
const click = { notification: { tag: TAG, close: () => {} } };

test("a need is shown while no page is visible, and only then", async () => {
  const one = started({ url: "http://x/", visibilityState: "hidden" });
  assert.deepEqual(await one.tell("message", need(1)), ["a needs you: 1 open", { told: ["a", 1] }]);
  const two = started({ url: "http://x/", visibilityState: "hidden" }, { url: "http://x/", visibilityState: "visible" });
  assert.deepEqual(await two.tell("message", need(1)), []);
});

test("what two tabs tell is shown once, and one need more is shown again", async () => {
  const worker = started({ url: "http://x/", visibilityState: "hidden" });
  await worker.tell("message", need(1));
  await worker.tell("message", need(1));
  const done = await worker.tell("message", need(2));
  assert.deepEqual(done.filter((one) => typeof one === "string"), ["a needs you: 1 open", "a needs you: 2 open"]);
});

test("what is no longer needed is taken away", async () => {
  const worker = started({ url: "http://x/", visibilityState: "hidden" });
  await worker.tell("message", need(1));
  assert.equal((await worker.tell("message", { data: { hide: TAG } })).at(-1), `closed ${TAG}`);
});

test("a click leads the page of the session to it, else a visible one, else the one used last; or opens one", async () => {
  const blob: FakePage = { url: "http://x/v1/blobs/1", visibilityState: "visible" };
  const last: FakePage = { url: "http://x/#/s/b", visibilityState: "hidden" };
  const seen: FakePage = { url: "http://x/#/s/ab", visibilityState: "visible" };
  const own: FakePage = { url: "http://x/#/s/a/7", visibilityState: "hidden" };
  const cases: [FakePage[], FakePage][] = [[[blob, last, seen, own], own], [[blob, last, seen], seen], [[blob, last], last]];
  for (const [pages, led] of cases) {
    assert.deepEqual(await started(...pages).tell("notificationclick", click), [{ open: TAG }, `focus ${led.url}`]);
  }
  assert.deepEqual(await started(blob).tell("notificationclick", click), [`/${TAG}`]);
});

test("it answers no request, so it serves no old page and keeps no conversation", () => {
  assert.deepEqual(Object.keys(started().handlers).sort(), ["activate", "install", "message", "notificationclick"]);
});
