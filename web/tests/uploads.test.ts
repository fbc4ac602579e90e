import assert from "node:assert/strict";
import { beforeEach, mock, test } from "node:test";
import { Uploads } from "../src/uploads.ts";
import { installDoubles } from "./browser_double.ts";

class UploadRequestDouble {
  static sent: UploadRequestDouble[] = [];
  upload: { onprogress?: (event: { loaded: number; total: number }) => void } = {};
  status = 0;
  responseText = "";
  aborted = false;
  onload?: () => void;
  onloadend?: () => void;
  onerror?: () => void;
  open(): void {}
  setRequestHeader(): void {}
  send(): void {
    UploadRequestDouble.sent.push(this);
  }
  abort(): void {
    this.aborted = true;
    this.onloadend?.();
  }
  answer(status: number, text: string): void {
    Object.assign(this, { status, responseText: text });
    this.onload?.();
    this.onloadend?.();
  }
}

let uploads: Uploads;

beforeEach(() => {
  mock.timers.reset();
  mock.timers.enable({ apis: ["setTimeout"] });
  installDoubles();
  UploadRequestDouble.sent = [];
  Object.assign(globalThis, { XMLHttpRequest: UploadRequestDouble });
  uploads = new Uploads();
  uploads.select("s");
  uploads.add([new File(["plan"], "plan.txt")]);
});

const request = (): UploadRequestDouble => UploadRequestDouble.sent.at(-1)!;
const states = (): string[] => uploads.list.value.map(({ state, why }) => (why ? `${state}: ${why}` : state));

test("an upload whose answer was cut off has failed, and can be done again", () => {
  request().answer(201, '{"id":"12');
  assert.deepEqual(states(), ["failed: no connection"]);
  assert.deepEqual(uploads.take(), []);
  uploads.list.value[0]!.again!();
  request().answer(201, '{"id":"1234","name":"plan.txt"}');
  assert.deepEqual(states(), ["done"]);
  assert.deepEqual(uploads.take(), [{ id: "1234", name: "plan.txt" }]);
});

test("an upload of which nothing moves for a minute has failed", () => {
  mock.timers.tick(50_000);
  request().upload.onprogress!({ loaded: 2, total: 4 });
  mock.timers.tick(50_000);
  assert.deepEqual(states(), ["uploading"]);
  mock.timers.tick(10_000);
  assert.deepEqual(states(), ["failed: no connection"]);
  assert.ok(request().aborted);
});

test("an upload that was answered does not fail later", () => {
  request().answer(201, '{"id":"1234","name":"plan.txt"}');
  mock.timers.tick(60_000);
  assert.deepEqual(states(), ["done"]);
});
