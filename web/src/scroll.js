// The reader's scroll position. The view follows new rows only if the reader is at the end (Law 8).

const NEAR = 32;
const LETTER = /[\p{L}\p{N}]/gu;
const SNIPPET = 30; // letters and digits by which a text is found again in the same text as Markdown
const LEAST = 8;

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
    const read = anchor && firstBelow(anchor, this.scroller.getBoundingClientRect().top);
    const readTop = read && rectOf(read).top;
    const grew = update();
    const now = read && anchor.isConnected && (read.node.isConnected ? read : foundAgain(read, anchor));
    if (now && rectOf(now).height) this.scroller.scrollTop += rectOf(now).top - readTop; // else it is hidden now
    else if (anchor?.isConnected) this.scroller.scrollTop += anchor.getBoundingClientRect().top - before;
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

function textNodes(row) {
  const walker = document.createTreeWalker(row, NodeFilter.SHOW_TEXT);
  const nodes = [];
  while (walker.nextNode()) nodes.push(walker.currentNode);
  return nodes;
}

/** The rectangle of a character of a text node, or of all characters up to `end`. */
function rectOf({ node, offset }, end = Math.min(offset + 1, node.length)) {
  const range = document.createRange();
  range.setStart(node, offset);
  range.setEnd(node, end);
  return range.getBoundingClientRect();
}

/** The first character of a row that ends below `top`, as {node, offset}; undefined if there is none. */
function firstBelow(row, top) {
  const node = textNodes(row).find((one) => one.length && rectOf({ node: one, offset: 0 }, one.length).bottom > top);
  if (!node) return undefined;
  let low = 0;
  let high = node.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (rectOf({ node, offset: middle }).bottom > top) high = middle;
    else low = middle + 1;
  }
  return { node, offset: low };
}

/**
 * Where a character of a text node that was replaced is now: its text became Markdown, so only letters and digits are
 * compared. Of several such places, the one nearest to where it was; undefined if there is none.
 */
function foundAgain({ node, offset }, row) {
  const wanted = lettersOf(node.data.slice(offset)).slice(0, SNIPPET).join("");
  if (wanted.length < LEAST) return undefined;
  const nodes = textNodes(row);
  const text = nodes.map((one) => lettersOf(one.data).join("")).join("");
  const share = lettersOf(node.data.slice(0, offset)).length / lettersOf(node.data).length;
  let best = -1;
  for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, at + 1)) {
    if (best < 0 || Math.abs(at - share * text.length) < Math.abs(best - share * text.length)) best = at;
  }
  if (best < 0) return undefined;
  for (const one of nodes) {
    for (const found of one.data.matchAll(LETTER)) {
      if (best <= 0) return { node: one, offset: found.index };
      best -= found[0].length;
    }
  }
  return undefined;
}

function lettersOf(text) {
  return text.match(LETTER) ?? [];
}
