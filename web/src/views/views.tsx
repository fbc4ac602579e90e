// The views that are shown in place of the conversation, and larger dialogs.

import type { Signal } from "@preact/signals";
import { render } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { Glyph } from "../dialog.tsx";
import type { SessionList } from "../session_list.ts";
import { t } from "../texts.ts";
import { GatewayView } from "./gateway.tsx";
import { Inbox } from "./inbox.tsx";
import { type ViewAddress, titleOf } from "./address.ts";

export { openPeople } from "../people.tsx";
export { openStory } from "./story_dialog.tsx";

export interface ViewProps {
  list: SessionList;
}

interface ShownProps extends ViewProps {
  shown: Signal<ViewAddress | null>;
  /** Leaves the view for the conversation. */
  back: () => void;
}

/** Draws the view that `shown` names into `root`, from now on. */
export function drawViews(root: HTMLElement, props: ShownProps): void {
  render(<Shown {...props} />, root);
}

function Shown({ shown, list, back }: ShownProps) {
  const heading = useRef<HTMLHeadingElement>(null);
  const address = shown.value;
  const view = address?.view;
  useLayoutEffect(() => {
    if (view) heading.current?.focus({ preventScroll: true });
  }, [view]);
  if (!address) return null;
  return (
    <>
      <header class="bar">
        <button type="button" class="quiet icon menu" aria-label={t("Sessions")} aria-controls="side" onClick={openList}>
          <Glyph path="M3 5.5h14M3 10h14M3 14.5h14" />
        </button>
        <h1 id="view-title" ref={heading} tabIndex={-1}>{view === "needs" ? titleOf(address) : t("Gateway")}</h1>
        <button type="button" class="quiet icon close" aria-label={t("Close")} title={t("Back to the conversation")} onClick={back}>
          <Glyph path="M5 5l10 10M15 5L5 15" />
        </button>
      </header>
      <div class="view-body">
        {address.view === "needs" ? <Inbox list={list} /> : <GatewayView tab={address.tab} list={list} />}
      </div>
    </>
  );
}

function openList(event: Event): void {
  event.stopPropagation(); // a click beside the list closes it
  document.getElementById("side")!.dispatchEvent(new Event("wanted"));
}
