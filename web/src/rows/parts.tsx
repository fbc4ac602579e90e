// Small pieces of rows: times, files, changes of files, and the references of an entry to others.

import { useEffect, useState } from "preact/hooks";
import { onDemand, withLater } from "../on_demand.ts";
import { clock, fullTime, isLong, openly, plainly } from "../text.ts";
import type { Diff, Entry, FileRef } from "../wire.ts";
import type { RowContext } from "./context.ts";
import { type Foldable, isOpened, setOpened } from "./opened.ts";
import { locale, t } from "../texts.ts";

export function Time({ at }: { at: number }) {
  return (
    <time dateTime={new Date(at).toISOString()} title={fullTime(at)}>
      {clock(at)}
    </time>
  );
}

/** A text of Semel's, with what stands between backticks as code. The backticks stay in the text, unseen (Law 8). */
export const Coded = ({ text }: { text: string }) => (
  <>{openly(text).split(/`([^`\n]+)`/).map((piece, place) => (place % 2 ? <code key={place}><i>`</i>{piece}<i>`</i></code> : piece))}</>
);

/** The agent's name above an item, shown where its turn begins with that. */
export const Whose = ({ context }: { context: Pick<RowContext, "agent"> }) => (
  <div class="head">
    <span class="who">{plainly(context.agent())}</span>
  </div>
);

export const Mark = ({ text, title }: { text: string; title: string }) => (
  <span class="mark" title={title}>
    {text}
  </span>
);

/** What a person or a program wrote; the beginning of it if it is long, until the reader wants all. */
export function LongText({ owner, text }: { owner: Foldable; text: string }) {
  const [isOpen, setOpen] = useState(isOpened(owner));
  if (!isLong(text)) return <div class="body">{text}</div>;
  const turn = () => {
    setOpened(owner, !isOpen);
    setOpen(!isOpen);
  };
  return (
    <>
      <div class={isOpen ? "body" : "body cut"}>{text}</div>
      <button type="button" class="tiny unfold" aria-expanded={isOpen ? "true" : "false"} onClick={turn}>{isOpen ? t("Show less") : t("Show all")}</button>
    </>
  );
}

// ---------------------------------------------------------------- files

const PICTURE = /^image\/(png|jpeg|gif|webp)$/;
const SOUND = /^audio\/(aac|flac|mp4|mpeg|ogg|wav|webm|x-wav|x-m4a)$/;

/** Images and sounds are shown in place, all other files as links. */
export function Files({ files }: { files: FileRef[] | undefined }) {
  return <>{(files || []).map((file, place) => <File key={file.id ?? place} file={file} />)}</>;
}

function File({ file }: { file: FileRef }) {
  const name = plainly(file.name || t("file"));
  const size = file.size ? <small> {sizeText(file.size)}</small> : null;
  if (file.missing) {
    return (
      <span class="file missing" title={file.missing}>
        {name}
        <small> {file.missing}</small>
      </span>
    );
  }
  if (!file.id) return <Linked file={file} name={name} size={size} />;
  const href = `/v1/blobs/${encodeURIComponent(file.id)}`;
  const link = { href, target: "_blank", rel: "noopener", class: "file", title: name };
  const mime = file.mime || "";
  if (PICTURE.test(mime)) return <Picture link={link} file={file} name={name} />;
  if (!SOUND.test(mime) && !file.voice) return <a {...link}>{name}{size}</a>;
  return (
    <span class="sound">
      {SOUND.test(mime) ? <audio controls preload="none" src={href} aria-label={name} /> : null}
      <a {...link}>{name}{size}</a>
      {file.transcript ? <q class="spoken" title={t("A program wrote this down. It may have misheard.")}>{openly(file.transcript)}</q> : null}
      {file.untranscribed ? <small>{t("not written down: {why}", { why: file.untranscribed })}</small> : null}
    </span>
  );
}

const TALL_PX = 400;
const MAX_HEIGHT_PX = 360; // of a picture in a message
const MAX_TALL_WIDTH_PX = 260;

/**
 * An image. Where its size is known, it has its room before it is there; it is never shown larger than it is. Of a tall one,
 * such as a screenshot of a whole page, the upper end is shown, at a width at which one can read it.
 */
function Picture({ link, file, name }: { link: { href: string }; file: FileRef; name: string }) {
  const { width, height } = file;
  const isTall = width && height && height > TALL_PX && height > 3 * width;
  const scale = width && height ? Math.min(1, isTall ? MAX_TALL_WIDTH_PX / width : MAX_HEIGHT_PX / height) : 0;
  const size = width && height ? { width: Math.ceil(width * scale), height: Math.ceil(height * scale), class: "sized" } : {};
  return <a {...link} class={isTall ? "file picture tall" : "file picture"} onClick={openPicture}><img src={link.href} alt={name} loading="lazy" {...size} /></a>;
}

/** Shows the picture of a link that was clicked. With a key that opens links elsewhere, the browser does what it does. */
function openPicture(event: MouseEvent): void {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  const clicked = event.currentTarget as HTMLAnchorElement;
  event.preventDefault();
  void withLater(({ showPicture }) => document.querySelector("dialog[open]") || showPicture(clicked));
}

/** A file that an agent only linked to. An address that is not http(s) is shown as text, without a link. */
function Linked({ file, name, size }: { file: FileRef; name: string; size: preact.VNode | null }) {
  const uri = plainly(file.uri || "");
  const told = <>{name}{size}<small> {uri}</small></>;
  if (!/^https?:\/\//i.test(file.uri || "")) return <span class="file" title={uri}>{told}</span>;
  return <a href={file.uri} target="_blank" rel="noopener noreferrer" class="file" title={uri}>{told}</a>;
}

function sizeText(bytes: number): string {
  return bytes < 1024 ? `${bytes} B` : bytes < 1048576 ? `${Math.round(bytes / 1024)} KB` : `${(bytes / 1048576).toFixed(1)} MB`;
}

// ---------------------------------------------------------------- changes of files

const differ = onDemand(() => import("../line_diff.ts"));
const KINDS: Record<string, string> = { "-": "gone", "+": "come", " ": "same" };

/** The changes of files that a tool call makes, or that a permission request is about. */
export function Diffs({ diffs }: { diffs: Diff[] | undefined }) {
  return <>{(diffs ?? []).map((diff, place) => <FileDiff key={place} diff={diff} />)}</>;
}

function FileDiff({ diff: { path, oldText, newText, left_out: leftOut } }: { diff: Diff }) {
  const part = differ.part.value;
  useEffect(() => differ.want(), []);
  const texts = [openly(oldText ?? ""), openly(newText ?? "")] as const;
  const rows = leftOut ? [] : part?.changedLines(...texts) ?? wholeChange(...texts);
  return (
    <div class="diff">
      <p class="path">
        {plainly(path)}
        {oldText === undefined && !leftOut ? ` ${t("(a new file)")}` : ""}
      </p>
      {leftOut ? (
        <p class="none">{t("{count} characters are not shown here", { count: leftOut.toLocaleString(locale) })}</p>
      ) : (
        <pre tabIndex={0}>
          {rows.map(([sign, line], place) => (
            <span key={place} class={KINDS[sign]}>{`${place ? "\n" : ""}${sign === "@" ? "⋯" : `${sign} ${line}`}`}</span>
          ))}
        </pre>
      )}
    </div>
  );
}

/** A change as all lines that go and all that come, for as long as nothing can tell what stays. */
const wholeChange = (old: string, fresh: string): [string, string][] => [
  ...old.split("\n").map((line): [string, string] => ["-", line]),
  ...fresh.split("\n").map((line): [string, string] => ["+", line]),
];

// ---------------------------------------------------------------- references

const DID: Record<string, (entry: Entry) => string | null> = {
  reaction: ({ removed }) => (removed ? t("took back a reaction") : t("reacted")),
  edit: ({ role }) => (role === "agent" ? t("edited an earlier message") : t("edited a message")),
  delete: () => t("deleted a message"),
  ask: ({ role }) => (role === "agent" ? t("asks") : null),
};

/** What the sender did, such as "reacted"; null if the entry is an ordinary message. */
export function deed(entry: Entry): string | null {
  return entry.role === "agent" || entry.role === "user" ? DID[entry.kind ?? ""]?.(entry) ?? null : null;
}

/** A button that quotes the message that the entry refers to, and scrolls to it; nothing if the entry has no quote. */
export function Quoted({ entry, context }: { entry: Entry; context: RowContext }) {
  if (entry.quote === undefined) return null;
  const names: Record<string, string> = { agent: context.agent(), notice: "Semel", event: t("Event") };
  const whose = names[entry.whose ?? ""] ?? entry.whose ?? "";
  return (
    <button type="button" class="quoted" title={t("Show message {seq}", { seq: entry.of ?? "" })} onClick={() => context.go(entry.of!)}>
      <b>{plainly(whose)}</b> <bdi>{plainly(entry.quote)}</bdi>
    </button>
  );
}
