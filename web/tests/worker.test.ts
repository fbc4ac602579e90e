// The service worker: it shows a notification unless somebody looks at the page, leads to its session, and answers nothing.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import vm from "node:vm";

interface FakePage {
  url: string;
  visibilityState: "visible" | "hidden";
}

/** A worker with these pages open, and what it did. */
function started(...pages: FakePage[]) {
  const done: unknown[] = [];
  const handlers: Record<string, (event: unknown) => void> = {};
  const open = pages.map((page) => ({ ...page, postMessage: (message: unknown) => done.push(message), focus: () => done.push("focus") }));
  vm.runInNewContext(readFileSync("worker.js", "utf8"), {
    URL,
    addEventListener: (name: string, handler: (event: unknown) => void) => (handlers[name] = handler),
    clients: { matchAll: async () => open, openWindow: async (address: string) => done.push(address) },
    registration: {
      getNotifications: async ({ tag }: { tag: string }) => [{ close: () => done.push(`closed ${tag}`) }],
      showNotification: async (title: string, options: { body: string }) => done.push(`${title}: ${options.body}`),
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

const NEED = { show: { tag: "#/s/a", title: "a needs you", body: "1 approval" }, open: "#/s/a" };
const click = { notification: { data: "#/s/a", close: () => {} } };

test("a need is shown while no page is visible, and only then", async () => {
  assert.deepEqual(await started({ url: "http://x/", visibilityState: "hidden" }).tell("message", { data: NEED }), ["a needs you: 1 approval"]);
  const two = started({ url: "http://x/", visibilityState: "hidden" }, { url: "http://x/", visibilityState: "visible" });
  assert.deepEqual(await two.tell("message", { data: NEED }), []);
});

test("what is no longer needed is taken away", async () => {
  assert.deepEqual(await started().tell("message", { data: { hide: "#/s/a" } }), ["closed #/s/a"]);
});

test("a click leads an open page to the session, or opens one", async () => {
  const open = started({ url: "http://x/v1/blobs/1", visibilityState: "visible" }, { url: "http://x/#/s/b", visibilityState: "hidden" });
  assert.deepEqual(await open.tell("notificationclick", click), [{ open: "#/s/a" }, "focus"]);
  assert.deepEqual(await started().tell("notificationclick", click), ["/#/s/a"]);
});

test("it answers no request, so it serves no old page and keeps no conversation", () => {
  assert.deepEqual(Object.keys(started().handlers).sort(), ["activate", "install", "message", "notificationclick"]);
});
