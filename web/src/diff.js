// The changes of files that a tool call makes, or that a permission request is about: what goes and what comes.

import { h, openly, plainly } from "./dom.js";

const AROUND = 3; // unchanged lines that are shown before and after a change

/** The rows of a change, as [sign, line]: the lines that go, those that come, and some around them. */
export function changedLines(old, fresh) {
  const [before, after] = [old, fresh].map((text) => (text ? text.split(/\r\n|\n/) : []));
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start++;
  let end = 0;
  const most = Math.min(before.length, after.length) - start;
  while (end < most && before.at(-1 - end) === after.at(-1 - end)) end++;
  const stop = before.length - end;
  const signed = (sign, lines) => lines.map((line) => [sign, line]);
  return [
    ...signed(" ", before.slice(Math.max(0, start - AROUND), start)),
    ...signed("-", before.slice(start, stop)),
    ...signed("+", after.slice(start, after.length - end)),
    ...signed(" ", before.slice(stop, stop + AROUND)),
  ];
}

const KINDS = { "-": "gone", "+": "come", " ": "same" };

/** An element for each change of a file (ACP's `Diff`). */
export function diffNodes(diffs) {
  return (diffs ?? []).map(({ path, oldText, newText, left_out: leftOut }) => {
    const head = h("p", { class: "path" }, plainly(path), oldText === undefined && !leftOut ? " (a new file)" : "");
    if (leftOut) return h("div", { class: "diff" }, head, h("p", { class: "none" }, `${leftOut.toLocaleString()} characters are not shown here`));
    const lines = changedLines(openly(oldText ?? ""), openly(newText ?? ""));
    const rows = lines.map(([sign, line], place) => h("span", { class: KINDS[sign] }, `${place ? "\n" : ""}${sign} ${line}`));
    return h("div", { class: "diff" }, head, h("pre", { tabindex: "0" }, ...rows));
  });
}
