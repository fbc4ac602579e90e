// Small pieces of the gateway's views.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { messageOf } from "../api.ts";
import { called } from "../text.ts";
import { locale, t } from "../texts.ts";
import type { Polled } from "./polled.ts";
import { openStory } from "./story_dialog.tsx";

export function SessionName({ session, title }: { session: string; title?: string | null | undefined }) {
  return <a class="session" href={`#/s/${encodeURIComponent(session)}`}>{called({ title, key: session })}</a>;
}

/** A view of what was asked for: `children` of the answer, and above it why there is no newer one. */
export function Told<T>({ polled, children }: { polled: Polled<T>; children: (data: T) => ComponentChildren }) {
  return (
    <>
      {polled.problem ? <p class="wrong" role="alert">{polled.problem}</p> : null}
      {polled.data ? children(polled.data) : polled.problem ? null : <p class="hint">{t("Asking the gateway ...")}</p>}
    </>
  );
}

/** A button that shows the story of what `of` names. */
export function StoryButton({ of }: { of: string }) {
  return <button type="button" class="tiny" title={t("How it came about, and what became of it")} onClick={() => void openStory(of)}>{t("Why")}</button>;
}

interface DeedProps {
  text: string;
  title?: string;
  kind?: string;
  act: () => Promise<unknown>;
}

/** A button that does something once per click, and says why if it could not. It keeps the focus meanwhile. */
export function Deed({ text, title, kind = "", act }: DeedProps) {
  const [busy, setBusy] = useState(false);
  const [wrong, setWrong] = useState("");
  const click = async () => {
    if (busy) return;
    setBusy(true);
    setWrong("");
    try {
      await act();
    } catch (error) {
      setWrong(messageOf(error));
    }
    setBusy(false);
  };
  return (
    <>
      <button type="button" class={kind} title={title} aria-disabled={busy ? "true" : undefined} onClick={click}>{text}</button>
      {wrong ? <span class="wrong" role="alert">{wrong}</span> : null}
    </>
  );
}

/** A number with so many digits behind the point, as the reader writes it. */
export const numberText = (number: number, digits = 0): string =>
  number.toLocaleString(locale, { minimumFractionDigits: digits, maximumFractionDigits: digits });

const UNITS = ["B", "KB", "MB", "GB", "TB"];

/** A size in bytes in words: "1.5 GB". */
export function sizeText(bytes: number): string {
  let size = bytes;
  let unit = 0;
  while (size >= 1000 && unit < UNITS.length - 1) [size, unit] = [size / 1024, unit + 1];
  return `${numberText(size, unit && size < 10 ? 1 : 0)} ${UNITS[unit]}`;
}
