// Task lists and footnotes in an agent's Markdown, drawn in the nodes of a block; loaded when the first text has one. The
// signs that stood there stay in the text, unseen (Law 8).

const TASK = /^\[([ xX])\](?=\s)/;
const NOTE = /\[\^([^\]\s]{1,40})\]/;
const NOTE_BEGINS = /^[ >]{0,9}\[\^([^\]\s]{1,40})\]:/gm;

/** The footnotes that a text has, each between blanks; "" if it has none. */
export function notesOf(text: string): string {
  const names = [...text.matchAll(NOTE_BEGINS)].map(([, name]) => name);
  return names.length ? ` ${names.join(" ")} ` : "";
}

/** `notes`: the footnotes of the whole text. A reference to any other stays as it was written. */
export function drawExtras(nodes: DocumentFragment, notes: string): void {
  for (const item of nodes.querySelectorAll("li")) drawTask(item);
  for (const text of plainTexts(nodes)) drawNotes(text, notes);
}

function drawTask(item: HTMLElement): void {
  let first = item.firstChild;
  if (first instanceof Text && !first.data.trim()) first = first.nextSibling;
  const text = first instanceof HTMLParagraphElement ? first.firstChild : first;
  const [signs, state] = (text instanceof Text && TASK.exec(text.data)) || [];
  if (!signs) return;
  const box = document.createElement("input");
  box.type = "checkbox";
  box.disabled = true;
  box.toggleAttribute("checked", state !== " ");
  box.setAttribute("aria-hidden", "true"); // the signs beside it are read out
  (text as Text).splitText(signs.length);
  (text as Text).replaceWith(unseen(signs), box);
  if (item.parentElement?.nodeName !== "UL") return; // it has a number
  item.classList.add("task");
  box.className = "box"; // in the place of the dot
}

/** The texts in which nothing is a link or code. */
function plainTexts(nodes: DocumentFragment): Text[] {
  const walker = document.createTreeWalker(nodes, NodeFilter.SHOW_TEXT);
  const texts: Text[] = [];
  while (walker.nextNode()) if (!walker.currentNode.parentElement?.closest("a, code, .math")) texts.push(walker.currentNode as Text);
  return texts;
}

/** Makes buttons of the marks of footnotes in a text: what refers to one is raised, what begins one is not. */
function drawNotes(text: Text, notes: string): void {
  for (let found = NOTE.exec(text.data); found; found = NOTE.exec(text.data)) {
    const [signs, name] = found;
    const mark = found.index ? text.splitText(found.index) : text;
    const rest = mark.splitText(signs.length);
    text = rest;
    if (!notes.includes(` ${name} `)) continue;
    let before = mark.previousSibling;
    if (before instanceof Text && !before.data.trim()) before = before.previousSibling; // the line's end behind <br>
    const begins = rest.data.startsWith(":") && (!before || before.nodeName === "BR");
    const button = document.createElement("button");
    button.type = "button";
    button.className = begins ? "note begins" : "note";
    button.dataset.note = name;
    button.addEventListener("click", followNote);
    button.append(unseen("[^"), name!, unseen("]"));
    mark.replaceWith(button);
  }
}

function unseen(signs: string): HTMLElement {
  const node = document.createElement("i");
  node.textContent = signs;
  return node;
}

/** Leads from what refers to a footnote to the footnote, and back to the first that refers to it. */
function followNote({ currentTarget }: Event): void {
  const button = currentTarget as HTMLElement;
  const all = [...(button.closest(".rich")?.querySelectorAll<HTMLElement>(".note") ?? [])];
  const target = all.find((one) => one.dataset.note === button.dataset.note && one.matches(".begins") !== button.matches(".begins"));
  target?.focus({ preventScroll: true });
  target?.scrollIntoView({ block: "nearest" });
}
