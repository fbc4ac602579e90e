// A picture of a message, as large as the window. Arrow keys go through the pictures of that message.

import { byId, dialogById, say, show } from "./dom.ts";
import { bindKeys } from "./keys.ts";
import { t } from "./texts.ts";

interface Shown {
  href: string;
  name: string;
}

const dialog = dialogById("lightbox");
const picture = byId<HTMLImageElement>("lightbox-picture");
const link = byId<HTMLAnchorElement>("lightbox-link");
let pictures: Shown[] = [];
let place = 0;

function draw(): void {
  const { href, name } = pictures[place]!;
  picture.src = link.href = href;
  picture.alt = name;
  say(byId("lightbox-name"), pictures.length > 1 ? `${name} · ${t("{place} of {count}", { place: place + 1, count: pictures.length })}` : name);
}

function go(step: number): true {
  place = (place + step + pictures.length) % pictures.length;
  draw();
  return true;
}

/** Shows the picture of a link that was clicked. With a key that opens links elsewhere, the browser does what it does. */
export function showPicture(event: MouseEvent): void {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  const clicked = event.currentTarget as HTMLAnchorElement;
  const links = [...(clicked.closest("[data-key]") ?? document).querySelectorAll<HTMLAnchorElement>("a.picture")];
  event.preventDefault();
  pictures = links.map(({ href, title }) => ({ href, name: title }));
  place = links.indexOf(clicked);
  for (const id of ["lightbox-before", "lightbox-after"]) show(byId(id), links.length > 1);
  draw();
  dialog.showModal(); // the browser gives the focus back to the link when it closes
}

bindKeys(dialog, t("With a picture"), [
  { key: "ArrowLeft", does: t("The previous picture of the message"), press: () => go(-1) },
  { key: "ArrowRight", does: t("The next one"), press: () => go(1) },
]);
dialog.addEventListener("close", () => picture.removeAttribute("src"));
dialog.addEventListener("click", ({ target }) => target === dialog && dialog.close()); // beside the picture
byId("lightbox-before").addEventListener("click", () => go(-1));
byId("lightbox-after").addEventListener("click", () => go(1));
byId("lightbox-close").addEventListener("click", () => dialog.close());
