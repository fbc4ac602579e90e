// The rows that are not transcript entries: tool calls, thoughts, plans, requests. One class per kind.

import { diffNodes } from "./diff.js";
import { fileNodes } from "./files.js";
import { h, inputText, openly, plainly, say, show } from "./dom.js";
import { RequestRow } from "./request.js";

/** A line that can be opened, for tool calls and thoughts. Only the reader opens or closes it, never an update. */
class Folding {
  constructor(data, context, kind) {
    this.context = context;
    this.label = h("span", { class: "label" });
    this.state = h("span", { class: "state" });
    this.text = document.createTextNode("");
    this.output = h("pre", { class: "output", tabindex: "0" }, this.text);
    this.inside = h("div", { class: "inside" }, this.output);
    this.details = h("details", {}, h("summary", {}, h("span", { class: "sign", "aria-hidden": "true" }), this.label, this.state), this.inside);
    this.head = h("div", { class: "head" }, h("span", { class: "who" }, plainly(context.agent())));
    this.node = h("li", { class: `item ${kind}` }, this.head, this.details);
  }

  setText(raw) {
    const text = openly(raw);
    if (this.text.data !== text) {
      if (text.startsWith(this.text.data)) this.text.appendData(text.slice(this.text.data.length));
      else this.text.data = text;
    }
    show(this.output, text !== "");
  }

  grow(text) {
    const cut = this.data.text.endsWith("\r"); // the next text may begin with the \n of this line end
    this.data = { ...this.data, text: this.data.text + text };
    if (cut) this.setText(this.data.text);
    else this.text.appendData(openly(text));
    show(this.output, true);
  }
}

const STATUS = { pending: "waiting", running: "running", done: "", failed: "failed", cancelled: "cancelled", "no result": "no result" };

class ToolRow extends Folding {
  constructor(data, context) {
    super(data, context, "tool");
    this.input = h("pre", { class: "input", tabindex: "0", hidden: true });
    this.told = document.createTextNode("");
    this.whole = h("a", { target: "_blank", rel: "noopener" }, "Show all");
    this.gap = h("p", { class: "gap", hidden: true }, this.told, this.whole);
    this.tail = h("pre", { class: "output", tabindex: "0", hidden: true });
    this.empty = h("p", { class: "none" }, "no output");
    this.files = h("div", { class: "files" });
    this.diffs = h("div", { class: "diffs" });
    this.inside.prepend(this.input, this.diffs);
    this.inside.append(this.gap, this.tail, this.empty, this.files);
    this.set(data);
  }

  set(data) {
    this.data = data;
    const status = data.status || "pending";
    this.node.dataset.status = status;
    say(this.label, plainly(data.title || data.name || "tool"));
    const exit = data.exit !== undefined && data.exit !== null && data.exit !== 0 ? `exit ${data.exit}` : "";
    const empty = status === "done" && data.tool_kind === "execute" && !exit && !data.text && !data.tail && !data.files?.length;
    const outcome = [empty ? "done, no output" : STATUS[status] ?? status, exit].filter(Boolean).join(", ");
    say(this.state, [outcome, this.request?.outcome()].filter(Boolean).join(" · "));
    const input = inputText(data.input);
    say(this.input, openly(input));
    show(this.input, input !== "" && input !== data.title);
    this.setText(data.text || "");
    this.told.data = gapText(data);
    this.whole.href = this.context.output(data.id);
    show(this.whole, Boolean(data.gap));
    show(this.gap, this.told.data !== "");
    say(this.tail, openly(data.tail || ""));
    show(this.tail, Boolean(data.tail));
    const told = JSON.stringify(data.files ?? []);
    if (told !== this.filesTold) this.files.replaceChildren(...fileNodes(data.files));
    this.filesTold = told;
    show(this.files, Boolean(data.files?.length));
    const changes = JSON.stringify(data.diffs ?? []);
    if (changes !== this.diffsTold) this.diffs.replaceChildren(...diffNodes(data.diffs));
    this.diffsTold = changes;
    show(this.empty, !data.text && !data.tail && !input && !data.files?.length && !data.diffs?.length && !data.live);
  }

  /** Shows here how the permission request for this call was answered. Its own row disappears. */
  setRequest(request) {
    this.request = request;
    request.join(this);
    this.set(this.data);
  }

  focus() {
    this.details.querySelector("summary").focus({ preventScroll: true });
  }
}

function gapText({ gap, truncated, tail }) {
  if (typeof gap === "number" && gap > 0) return `… ${gap.toLocaleString()} characters are not shown here … `;
  if (gap) return `… ${gap} …`;
  return truncated && !tail ? "… cut off by the agent …" : "";
}

class ThoughtRow extends Folding {
  constructor(data, context) {
    super(data, context, "thought");
    this.set(data);
  }

  set(data) {
    this.data = data;
    this.node.classList.toggle("live", Boolean(data.live));
    say(this.label, data.live ? "Thinking" : "Thought");
    this.setText(data.text || "");
  }
}

class PlanRow {
  constructor(data) {
    this.node = h("li", { class: "item plan" });
    this.set(data);
  }

  set(data) {
    this.data = data;
    const told = JSON.stringify(data.entries);
    if (told === this.told) return;
    this.told = told;
    const steps = (data.entries || []).map((step) =>
      h("li", { class: step.status || "pending", "aria-label": `${plainly(step.content)}: ${step.status || "pending"}` }, plainly(step.content)),
    );
    this.node.replaceChildren(h("p", { class: "label" }, "Plan"), h("ol", {}, ...steps));
  }

  grow() {}
}

class NoticeRow {
  constructor(data) {
    this.node = h("li", { class: "item notice" });
    this.set(data);
  }

  set(data) {
    this.data = data;
    say(this.node, openly(data.text || data.title || ""));
  }

  grow(text) {
    this.set({ ...this.data, text: this.data.text + text });
  }
}

/** An invisible row: its kind is shown elsewhere (mode and usage, in the header), or this page does not know it. */
class SilentRow {
  constructor(data) {
    this.data = data;
    this.node = h("li", { class: "silent", hidden: true });
  }

  set(data) {
    this.data = data;
  }

  grow() {}
}

/** Replaces a row that could not be drawn. Drawing is tried again when its data changes. */
export class BrokenRow {
  constructor(data) {
    this.data = data;
    this.node = h("li", { class: "item notice broken" }, "This could not be drawn.");
  }

  grow(text) {
    this.data = { ...this.data, text: this.data.text + text };
  }

  line() {}
}

const KINDS = { tool: ToolRow, thought: ThoughtRow, plan: PlanRow, permission: RequestRow, ask: RequestRow, notice: NoticeRow };

export function itemRow(data, context) {
  return new (KINDS[data.kind] || SilentRow)(data, context);
}
