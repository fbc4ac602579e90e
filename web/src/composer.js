// The message box. Each session has its own draft, which no update of the view changes (Law 8).

import { byId } from "./dom.js";
import { keepHere, kept, keptHere } from "./kept.ts";

export class Composer {
  constructor(send) {
    this.form = byId("composer");
    this.text = byId("text");
    this.key = null;
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      const text = this.text.value;
      if (!text.trim() || !this.key) return;
      this.put("");
      send(text);
      this.text.focus();
    });
    this.text.addEventListener("input", () => this.changed());
    this.text.addEventListener("keydown", (event) => {
      const sends = event.key === "Enter" && !event.shiftKey && !event.isComposing && event.keyCode !== 229;
      if (!sends || matchMedia("(pointer: coarse) and (hover: none)").matches) return; // a phone has no Shift+Enter
      event.preventDefault();
      this.form.requestSubmit();
    });
  }

  select(key) {
    this.key = key;
    this.text.value = keptHere(`draft.${key}`) ?? kept(`draft.${key}`, "");
    this.grow();
  }

  put(text) {
    this.text.value = text;
    this.changed();
  }

  /** Puts a text back into the box, before what is being written there. */
  restore(text) {
    this.put(this.text.value ? `${text}\n${this.text.value}` : text);
    this.text.focus();
  }

  changed() {
    if (this.key) keepHere(`draft.${this.key}`, this.text.value);
    this.grow();
  }

  grow() {
    this.text.style.height = "auto";
    this.text.style.height = `${Math.min(this.text.scrollHeight + 2, innerHeight * 0.4)}px`;
  }
}
