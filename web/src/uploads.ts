// Files that wait in the message box: each is uploaded as it is added, and a message takes the uploaded ones. What is
// uploaded stays with its session's draft over a reload, until the gateway gives it up after a day.

import { signal } from "@preact/signals";
import { keepHere, keptHere } from "./kept.ts";
import { freshId } from "./text.ts";
import type { FileRef } from "./wire.ts";
import { t } from "./texts.ts";

const MAX_FILES = 20;
const MAX_SILENCE_MS = 60000; // an upload of which nothing moves for this time has no connection any more

export interface Upload {
  /** Of this page: the gateway's id comes with the answer. */
  place: string;
  name: string;
  state: "uploading" | "done" | "failed";
  /** From 0 to 1. */
  progress: number;
  file?: FileRef;
  /** Why it failed. */
  why?: string;
  /** Uploads it again. */
  again?: () => void;
  /** Ends the upload. */
  stop?: () => void;
}

export class Uploads {
  /** Those of the open session, in the order in which they were added. */
  readonly list = signal<readonly Upload[]>([]);
  private key: string | null = null;
  private kept = new Map<string, readonly Upload[]>(); // by session, while the page is open

  select(key: string): void {
    if (this.key !== null) this.kept.set(this.key, this.list.peek());
    this.key = key;
    this.list.value = this.kept.get(key) ?? restored(key);
  }

  add(files: Iterable<File>): void {
    for (const file of files) {
      if (this.list.peek().length >= MAX_FILES) return;
      this.send({ place: freshId(), name: file.name || "pasted", state: "uploading", progress: 0 }, file);
    }
  }

  remove(upload: Upload): void {
    upload.stop?.();
    this.put(this.list.peek().filter((one) => one.place !== upload.place));
  }

  isBusy(): boolean {
    return this.list.peek().some((one) => one.state === "uploading");
  }

  hasFailed(): boolean {
    return this.list.peek().some((one) => one.state === "failed");
  }

  /** Takes the uploaded files out of the box, for a message. Those that failed stay. */
  take(): FileRef[] {
    const done = this.list.peek().filter((one) => one.state === "done");
    this.put(this.list.peek().filter((one) => one.state !== "done"));
    return done.map((one) => one.file!);
  }

  private send(upload: Upload, file: File): void {
    const key = this.key!;
    const request = new XMLHttpRequest(); // fetch does not tell how far it is
    const change = (fields: Partial<Upload>): void => this.change(key, upload.place, fields);
    const fail = (why: string): void => change({ state: "failed", why });
    request.open("POST", `/v1/files?name=${encodeURIComponent(upload.name)}`);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    let silenceTimer: ReturnType<typeof setTimeout>;
    const wait = (): void => {
      clearTimeout(silenceTimer);
      silenceTimer = setTimeout(() => {
        request.abort();
        fail(t("no connection"));
      }, MAX_SILENCE_MS);
    };
    request.upload.onprogress = (event) => {
      wait();
      change({ progress: event.total ? event.loaded / event.total : 0 });
    };
    request.onloadend = () => clearTimeout(silenceTimer);
    request.onerror = () => fail(t("no connection"));
    request.onload = () => {
      const answer = parsed(request.responseText) as { id?: unknown; detail?: unknown };
      if (request.status === 201 && typeof answer.id === "string") change({ state: "done", progress: 1, file: answer as FileRef, why: undefined });
      else if (request.status === 201) fail(t("no connection")); // the answer was cut off
      else fail(String(answer.detail ?? t("the gateway answered {status}", { status: request.status })));
    };
    const ways = {
      stop: () => request.abort(),
      again: () => this.send({ ...upload, state: "uploading", progress: 0 }, file),
    };
    const fresh = { ...upload, ...ways };
    const others = this.list.peek();
    const known = others.some((one) => one.place === upload.place);
    this.put(known ? others.map((one) => (one.place === upload.place ? fresh : one)) : [...others, fresh]);
    request.send(file);
    wait();
  }

  private change(key: string, place: string, fields: Partial<Upload>): void {
    const changed = (list: readonly Upload[]) => list.map((one) => (one.place === place ? { ...one, ...fields } : one));
    if (key === this.key) this.put(changed(this.list.peek()));
    else this.kept.set(key, changed(this.kept.get(key) ?? []));
  }

  /** Puts other uploaded files in the place of those that are there, and returns these. What is not uploaded stays. */
  swap(files: readonly FileRef[]): FileRef[] {
    const taken = this.take();
    this.put([...files.map(uploadOf), ...this.list.peek()]);
    return taken;
  }

  /** Replaces what is in the box. */
  put(list: readonly Upload[]): void {
    this.list.value = list;
    const done = list.filter((one) => one.state === "done").map((one) => one.file);
    keepHere(`files.${this.key}`, done.length ? JSON.stringify(done) : "");
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}

/** A file that the gateway has, as the box shows it. */
export const uploadOf = (file: FileRef): Upload => ({ place: freshId(), name: file.name ?? "file", state: "done", progress: 1, file });

/** What the box of a session held before the page was loaded again. */
function restored(key: string): Upload[] {
  const files = parsed(keptHere(`files.${key}`) || "[]") as FileRef[];
  return files.map(uploadOf);
}
