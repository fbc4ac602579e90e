// A picture of a message, as large as the window. Arrow keys go through the pictures of that message.

import { signal } from "@preact/signals";
import { useState } from "preact/hooks";
import { CloseButton, Glyph, openDialog } from "./dialog.tsx";
import { bindKeys } from "./keys.ts";
import { t } from "./texts.ts";

const shown = signal<{ pictures: { href: string; name: string }[]; place: number }>({ pictures: [], place: 0 });
let dialog: HTMLDialogElement | undefined;

function go(step: number): boolean {
  const { pictures, place } = shown.peek();
  if (dialog?.open) shown.value = { pictures, place: (place + step + pictures.length) % pictures.length };
  return dialog?.open ?? false;
}

/** Shows the picture of a link, and those of the other links of its message. */
export function showPicture(clicked: HTMLAnchorElement): void {
  const links = [...(clicked.closest("[data-key]") ?? document).querySelectorAll<HTMLAnchorElement>("a.picture")];
  shown.value = { pictures: links.map(({ href, title }) => ({ href, name: title })), place: links.indexOf(clicked) };
  dialog = openDialog("lightbox", (close) => <Picture close={close} />, t("Picture"));
  dialog.addEventListener("click", ({ target }) => target === dialog && dialog?.close()); // beside the picture
}

function Picture({ close }: { close: () => void }) {
  const { pictures, place } = shown.value;
  const { href, name } = pictures[place]!;
  const [tall, setTall] = useState(""); // the picture that is shown at its width, and scrolls
  const measure = ({ currentTarget: { naturalWidth, naturalHeight } }: { currentTarget: HTMLImageElement }) => naturalHeight > 3 * naturalWidth && setTall(href);
  const among = pictures.length > 1;
  return (
    <>
      <div key={href} class="frame" tabIndex={0}><img id="lightbox-picture" class={tall === href ? "tall" : ""} src={href} alt={name} onLoad={measure} /></div>
      <div class="row">
        <button type="button" class="quiet icon" hidden={!among} aria-label={t("Previous picture")} onClick={() => go(-1)}><Glyph path="M12.5 4l-6 6 6 6" /></button>
        <button type="button" class="quiet icon" hidden={!among} aria-label={t("Next picture")} onClick={() => go(1)}><Glyph path="M7.5 4l6 6-6 6" /></button>
        <span id="lightbox-name" role="status">{among ? `${name} · ${t("{place} of {count}", { place: place + 1, count: pictures.length })}` : name}</span>
        <a id="lightbox-link" target="_blank" rel="noopener" href={href}>{t("Open in a tab")}</a>
        <CloseButton id="lightbox-close" close={close} />
      </div>
    </>
  );
}

bindKeys(document, t("With a picture"), [
  { key: "ArrowLeft", does: t("The previous picture of the message"), press: () => go(-1) },
  { key: "ArrowRight", does: t("The next one"), press: () => go(1) },
]);
