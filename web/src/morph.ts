// Changes nodes into other nodes by touching only what differs, so that what stays the same keeps its node, and with it
// the reader's selection, focus and scroll position (Law 8).

/** Makes the children of `target` like those of `fresh`, whose nodes it may take. */
export function morph(target: Node, fresh: Node): void {
  let old = target.firstChild;
  let next = fresh.firstChild;
  while (next) {
    const following = next.nextSibling;
    if (!old) {
      target.appendChild(next);
    } else {
      const after: ChildNode | null = old.nextSibling;
      if (old.nodeType === next.nodeType && old.nodeName === next.nodeName) morphNode(old, next);
      else target.replaceChild(next, old);
      old = after;
    }
    next = following;
  }
  while (old) {
    const after: ChildNode | null = old.nextSibling;
    old.remove();
    old = after;
  }
}

function morphNode(old: ChildNode, next: ChildNode): void {
  if (old instanceof Text && next instanceof Text) {
    if (old.data === next.data) return;
    if (next.data.startsWith(old.data)) old.appendData(next.data.slice(old.data.length));
    else old.data = next.data;
  } else if (old instanceof Element && next instanceof Element) {
    for (const { name } of [...old.attributes]) if (!next.hasAttribute(name)) old.removeAttribute(name);
    for (const { name, value } of next.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    morph(old, next);
  }
}

/** Where the reader's selection begins and ends in the text of a node; null if it does not touch it, or is empty. */
function selectedStretch(node: Node): [number, number] | null {
  const selection = document.getSelection();
  if (!selection?.rangeCount) return null;
  const range = selection.getRangeAt(0);
  if (range.collapsed || !range.intersectsNode(node)) return null;
  const length = node.textContent?.length ?? 0;
  const offset = (container: Node, place: number, otherwise: number): number => {
    if (!node.contains(container)) return otherwise;
    const before = document.createRange();
    before.selectNodeContents(node);
    before.setEnd(container, place);
    return before.toString().length;
  };
  return [offset(range.startContainer, range.startOffset, 0), offset(range.endContainer, range.endOffset, length)];
}

/**
 * As `morph`, but never changes what the reader has selected: returns false, and changes nothing, if it would. What is
 * selected stays selected.
 */
export function morphUnderReader(target: Node, fresh: Node): boolean {
  const stretch = selectedStretch(target);
  if (!stretch) {
    morph(target, fresh);
    return true;
  }
  const [start, end] = stretch;
  const shown = (target.textContent ?? "").slice(0, end);
  if ((fresh.textContent ?? "").slice(0, end) !== shown) return false;
  const selection = document.getSelection()!;
  const { startContainer, startOffset, endContainer, endOffset } = selection.getRangeAt(0).cloneRange();
  morph(target, fresh);
  const now = selection.rangeCount ? selection.getRangeAt(0) : null;
  if (now?.startContainer === startContainer && now.endContainer === endContainer && now.startOffset === startOffset && now.endOffset === endOffset) {
    return true;
  }
  const range = document.createRange();
  range.setStart(...(target.contains(startContainer) || !startContainer.isConnected ? placeOf(target, start) : [startContainer, startOffset] as const));
  range.setEnd(...(target.contains(endContainer) || !endContainer.isConnected ? placeOf(target, end) : [endContainer, endOffset] as const));
  selection.removeAllRanges();
  selection.addRange(range);
  return true;
}

/** The text node and offset of a place in the text of a node. */
function placeOf(node: Node, place: number): readonly [Node, number] {
  const walker = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
  let last: Text | null = null;
  while (walker.nextNode()) {
    last = walker.currentNode as Text;
    if (place <= last.length) return [last, place];
    place -= last.length;
  }
  return last ? [last, last.length] : [node, 0];
}
