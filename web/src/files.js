// The files of an entry or a tool call: images and sounds are shown in place, all others as links.

import { h, plainly } from "./dom.js";

const PICTURE = /^image\/(png|jpeg|gif|webp)$/;
const SOUND = /^audio\/(aac|flac|mp4|mpeg|ogg|wav|webm|x-wav|x-m4a)$/;

export function fileNodes(files) {
  return (files || []).map(fileNode);
}

function fileNode(file) {
  const name = plainly(file.name || "file");
  const about = file.size ? h("small", {}, ` ${sizeText(file.size)}`) : null;
  if (file.missing) return h("span", { class: "file missing", title: file.missing }, name, h("small", {}, ` ${file.missing}`));
  const id = file.id ?? file.blob;
  if (!id) return linkNode(file, name, about);
  const href = `/v1/blobs/${encodeURIComponent(id)}`;
  const link = { href, target: "_blank", rel: "noopener", class: "file", title: name };
  const mime = file.mime || "";
  if (PICTURE.test(mime)) return h("a", link, h("img", { src: href, alt: name, loading: "lazy" }));
  if (!SOUND.test(mime)) return h("a", link, name, about);
  const player = h("audio", { controls: true, preload: "none", src: href, "aria-label": name });
  return h("span", { class: "sound" }, player, h("a", link, name, about));
}

/** A file that an agent only linked to. An address that is not http(s) is shown as text, without a link. */
function linkNode(file, name, about) {
  const uri = plainly(file.uri || "");
  const told = [name, about, h("small", {}, ` ${uri}`)];
  if (!/^https?:\/\//i.test(file.uri || "")) return h("span", { class: "file", title: uri }, ...told);
  return h("a", { href: file.uri, target: "_blank", rel: "noopener noreferrer", class: "file", title: uri }, ...told);
}

function sizeText(bytes) {
  return bytes < 1024 ? `${bytes} B` : bytes < 1048576 ? `${Math.round(bytes / 1024)} KB` : `${(bytes / 1048576).toFixed(1)} MB`;
}
