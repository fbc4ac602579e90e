// The messages of the open session that are on their way, below its rows.

import { h, openly, say } from "./dom.js";

const TELLS = { sending: "sending", waiting: "no connection: it is sent as soon as there is one", accepted: "", refused: "not sent" };

export class OutgoingList {
  /** edit(text) puts a refused text into the box. */
  constructor(list, edit) {
    this.list = list;
    this.edit = edit;
  }

  select(key) {
    this.key = key;
    this.list.replaceChildren();
    this.draw();
  }

  draw() {
    if (!this.key) return;
    const nodes = new Map([...this.list.children].map((node) => [node.dataset.id, node]));
    for (const message of this.outgoing.shown(this.key)) {
      const node = nodes.get(message.id) || this.row(message);
      nodes.delete(message.id);
      node.dataset.state = message.state;
      say(node.querySelector(".state"), [TELLS[message.state], message.why].filter(Boolean).join(": "));
      node.querySelector(".options").hidden = message.state !== "refused";
      if (!node.isConnected) this.list.append(node);
    }
    for (const node of nodes.values()) node.remove();
  }

  row(message) {
    const discard = () => this.outgoing.discard(this.key, message);
    const edit = () => {
      discard();
      this.edit(message.text);
    };
    return h(
      "li",
      { class: "entry user pending", "data-id": message.id },
      h("div", { class: "body" }, openly(message.text)),
      h("div", { class: "foot" },
        h("span", { class: "state" }),
        h("span", { class: "options", hidden: true },
          h("button", { type: "button", class: "tiny", onclick: edit }, "Edit"),
          h("button", { type: "button", class: "tiny", onclick: discard }, "Discard"))),
    );
  }
}
