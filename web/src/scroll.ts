// The reader's scroll position. The view follows new rows only if the reader is at the end (Law 8).

const NEAR_PX = 32;
const LETTER = /[\p{L}\p{N}]/gu;
const SNIPPET = 30; // letters and digits by which a text is found again in the same text drawn anew
const LEAST = 8;

interface TextPlace {
  node: Text;
  offset: number;
}

/** Where somebody reads in the text of a row, and by what that is known again once the text has changed. */
interface ReadPlace extends TextPlace {
  /** The text from there on in this node. */
  text: string;
  /** The letters and digits from there on. */
  letters: string;
  /** Which part of the row's text is before it, from 0 to 1. */
  share: number;
}

export class Place {
  /** Whether the view follows what comes. */
  pinned = true;
  private scroller: HTMLElement;
  private button: HTMLElement;
  private top = 0;
  private watched: Element | null = null; // a row in sight of a reader at the end, and where it stands there
  private watchedAt = 0;

  /** `grown`: the nodes whose growth the reader at the end follows. `button`: says that there is more below. */
  constructor(scroller: HTMLElement, button: HTMLElement, grown: HTMLElement[]) {
    this.scroller = scroller;
    this.button = button;
    scroller.addEventListener("scroll", () => this.look(), { passive: true });
    button.addEventListener("click", () => this.toEnd());
    scroller.addEventListener("click", ({ target }) => {
      if ((target as Element).closest(".gap button, summary, [aria-expanded]")) this.pinned = false; // who opens something reads on from there
    });
    const observer = new ResizeObserver(() => (this.pinned ? this.toEnd() : this.look()));
    for (const node of [scroller, ...grown]) observer.observe(node);
  }

  /**
   * Rows that grow push the end away before the view follows: only who scrolls up leaves it. The list scrolls up by itself
   * as rows above turn out shorter than estimated; then, what is in sight stays where it is.
   */
  private look(): void {
    const { scrollTop, scrollHeight, clientHeight } = this.scroller;
    const isAtEnd = scrollHeight - scrollTop - clientHeight < NEAR_PX;
    if (isAtEnd) {
      this.pinned = true;
      if (!this.watched?.isConnected) this.watch(); // what is in sight is drawn only now
    } else if (scrollTop < this.top) {
      if (this.pinned && this.isWatchedInPlace()) return this.toEnd();
      this.pinned = false;
    }
    this.top = scrollTop;
    if (this.pinned) this.button.hidden = true;
  }

  toEnd(): void {
    this.pinned = true;
    this.button.hidden = true;
    this.scroller.scrollTop = this.scroller.scrollHeight;
    this.top = this.scroller.scrollTop;
    this.watch();
  }

  private watch(): void {
    const first = this.anchor();
    this.watched = first?.nextElementSibling ?? first ?? null; // the first one may change above what is in sight
    this.watchedAt = this.placeOf(this.watched);
  }

  /** Whether nobody has scrolled up since the view went to the end. */
  private isWatchedInPlace(): boolean {
    if (!this.watched) return this.scroller.querySelector("#rows > li") !== null; // much came at once: nothing in sight is drawn
    return this.watched.isConnected && this.placeOf(this.watched) <= this.watchedAt + 1;
  }

  /** Where a row stands below the upper end of the view, in pixels. */
  private placeOf(row: Element | null): number {
    return (row?.getBoundingClientRect().top ?? 0) - this.scroller.getBoundingClientRect().top;
  }

  /** Highlights a row, which is in sight, for a moment. */
  reveal(node: HTMLElement): void {
    this.pinned = false;
    node.scrollIntoView({ block: "center" });
    this.top = this.scroller.scrollTop;
    node.classList.remove("aimed");
    void node.offsetWidth; // forces a reflow, which restarts the animation
    node.classList.add("aimed");
    node.addEventListener("animationend", () => node.classList.remove("aimed"), { once: true });
  }

  /** Runs an update of the view and puts the reader back where they were. The update returns whether there is more. */
  keep(update: () => boolean): void {
    if (this.pinned) {
      update();
      this.toEnd();
      return;
    }
    const anchor = this.anchor();
    const before = anchor?.getBoundingClientRect().top ?? 0;
    const read = anchor && firstBelow(anchor, this.scroller.getBoundingClientRect().top);
    const readTop = read ? rectOf(read).top : 0;
    const grew = update();
    const now = read && anchor.isConnected ? findPlace(read, anchor) : undefined;
    let moved = 0;
    if (now && rectOf(now).height) moved = rectOf(now).top - readTop; // else it is hidden now
    else if (anchor?.isConnected) moved = anchor.getBoundingClientRect().top - before;
    if (moved) this.scroller.scrollTop += moved;
    this.top = this.scroller.scrollTop;
    if (grew) this.button.hidden = false;
  }

  /** The first row that the reader can see: it must not move. */
  private anchor(): Element | undefined {
    const top = this.scroller.getBoundingClientRect().top;
    const rows = this.scroller.querySelectorAll("#rows > li");
    let low = 0;
    let high = rows.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (rows[middle]!.getBoundingClientRect().bottom > top) high = middle;
      else low = middle + 1;
    }
    return rows[low];
  }
}

function textNodes(row: Node): Text[] {
  const walker = document.createTreeWalker(row, NodeFilter.SHOW_TEXT);
  const nodes: Text[] = [];
  while (walker.nextNode()) nodes.push(walker.currentNode as Text);
  return nodes;
}

/** The rectangle of a character of a text node, or of all characters up to `end`. */
function rectOf({ node, offset }: TextPlace, end = Math.min(offset + 1, node.length)): DOMRect {
  const range = document.createRange();
  range.setStart(node, Math.min(offset, node.length));
  range.setEnd(node, end);
  return range.getBoundingClientRect();
}

/** The first character of a row that ends below `top`; undefined if there is none. */
function firstBelow(row: Node, top: number): ReadPlace | undefined {
  const nodes = textNodes(row);
  const index = nodes.findIndex((node) => node.length && rectOf({ node, offset: 0 }, node.length).bottom > top);
  const node = nodes[index];
  if (!node) return undefined;
  let low = 0;
  let high = node.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (rectOf({ node, offset: middle }).bottom > top) high = middle;
    else low = middle + 1;
  }
  const charsBefore = countChars(nodes.slice(0, index)) + low;
  return { node, offset: low, text: node.data.slice(low), letters: lettersFrom(nodes, index, low), share: charsBefore / countChars(nodes) };
}

const countChars = (nodes: Text[]): number => nodes.reduce((count, node) => count + node.length, 0);

/** The letters and digits from a character of a text node on: so many that the same ones are hardly anywhere else. */
function lettersFrom(nodes: Text[], first: number, offset: number): string {
  let letters = "";
  for (let index = first; index < nodes.length && letters.length < SNIPPET; index++) {
    const start = index === first ? offset : 0;
    letters += lettersOf(nodes[index]!.data.slice(start, start + 4 * SNIPPET)).join("");
  }
  return letters.slice(0, SNIPPET);
}

/**
 * Where a place in a row is after an update; undefined if it is gone. A text node may now hold the same words from another
 * part of the row.
 */
function findPlace(read: ReadPlace, row: Node): TextPlace | undefined {
  const { node, offset, text, letters } = read;
  const isUnchanged = node.isConnected && node.data.startsWith(text, offset);
  const nodes = isUnchanged ? textNodes(row) : [];
  if (isUnchanged && lettersFrom(nodes, nodes.indexOf(node), offset).startsWith(letters)) return read;
  return foundAgain(read, row) ?? (isUnchanged ? read : undefined);
}

/**
 * Where a place in a text that has changed is now: it may have become Markdown, or another text may stand before it, so only
 * letters and digits are compared. Of several such places, the one nearest to where it was; undefined if there is none.
 */
function foundAgain({ letters, share }: ReadPlace, row: Node): TextPlace | undefined {
  if (letters.length < LEAST) return undefined;
  const nodes = textNodes(row);
  const text = nodes.map((node) => lettersOf(node.data).join("")).join("");
  let best = -1;
  for (let at = text.indexOf(letters); at >= 0; at = text.indexOf(letters, at + 1)) {
    if (best < 0 || Math.abs(at - share * text.length) < Math.abs(best - share * text.length)) best = at;
  }
  if (best < 0) return undefined;
  for (const node of nodes) {
    for (const letter of node.data.matchAll(LETTER)) {
      if (best <= 0) return { node, offset: letter.index };
      best -= letter[0].length;
    }
  }
  return undefined;
}

function lettersOf(text: string): string[] {
  return text.match(LETTER) ?? [];
}
