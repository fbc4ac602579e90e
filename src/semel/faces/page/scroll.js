// The reader's scroll position. The view follows new rows only if the reader is at the end (Law 8).

const NEAR = 32;

export class Place {
  constructor(scroller, button) {
    this.scroller = scroller;
    this.button = button;
    this.pinned = true;
    scroller.addEventListener("scroll", () => this.look(), { passive: true });
    button.addEventListener("click", () => this.toEnd());
    new ResizeObserver(() => this.pinned && this.toEnd()).observe(scroller);
  }

  look() {
    const { scrollTop, scrollHeight, clientHeight } = this.scroller;
    this.pinned = scrollHeight - scrollTop - clientHeight < NEAR;
    if (this.pinned) this.button.hidden = true;
  }

  toEnd() {
    this.scroller.scrollTop = this.scroller.scrollHeight;
    this.pinned = true;
    this.button.hidden = true;
  }

  /** Scrolls a row to the middle of the screen and highlights it for a moment. */
  reveal(node) {
    this.pinned = false;
    node.scrollIntoView({ block: "center" });
    node.classList.remove("aimed");
    void node.offsetWidth; // forces a reflow, which restarts the animation
    node.classList.add("aimed");
    node.addEventListener("animationend", () => node.classList.remove("aimed"), { once: true });
    this.look();
  }

  /** Runs an update of the view and puts the reader back where they were. */
  keep(update) {
    if (this.pinned) {
      update();
      this.toEnd();
      return;
    }
    const anchor = this.anchor();
    const before = anchor?.getBoundingClientRect().top;
    const grew = update();
    if (anchor?.isConnected) this.scroller.scrollTop += anchor.getBoundingClientRect().top - before;
    if (grew) this.button.hidden = false;
  }

  /** The first row that the reader can see: it must not move. */
  anchor() {
    const top = this.scroller.getBoundingClientRect().top;
    const rows = this.scroller.querySelectorAll("#rows > li");
    let low = 0;
    let high = rows.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (rows[middle].getBoundingClientRect().bottom > top) high = middle;
      else low = middle + 1;
    }
    return rows[low];
  }
}
