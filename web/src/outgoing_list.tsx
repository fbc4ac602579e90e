// The messages of the open session that are on their way, below its rows.

import { type Signal } from "@preact/signals";
import type { LineState } from "./header.tsx";
import type { Outgoing, OutgoingMessage } from "./outgoing.ts";
import { LongText } from "./rows/parts.tsx";
import { openly, plainly } from "./text.ts";
import { t } from "./texts.ts";

const STATE_TEXTS: Record<OutgoingMessage["state"], string> = {
  sending: t("sending"),
  waiting: t("no connection: it is sent as soon as there is one"),
  accepted: "",
  refused: t("not sent"),
};

interface OutgoingListProps {
  outgoing: Outgoing;
  /** The open session. */
  session: Signal<string | null>;
  /** Counts the changes of the messages. */
  changes: Signal<number>;
  line: Signal<LineState>;
  /** Puts a message that was taken back into the box. */
  edit: (message: OutgoingMessage) => void;
}

export function OutgoingList({ outgoing, session, changes, line, edit }: OutgoingListProps) {
  void changes.value;
  const key = session.value;
  const describeState = ({ state }: OutgoingMessage): string => STATE_TEXTS[state === "sending" && line.value === "lost" ? "waiting" : state];
  if (key === null) return null;
  return (
    <>
      {outgoing.shown(key).map((message) => (
        <li key={message.id} class="entry user pending" data-id={message.id} data-state={message.state}>
          <LongText owner={message} text={openly(message.text)} />
          <div class="foot">
            {(message.files ?? []).map((file) => <span key={file.id} class="file">{plainly(file.name ?? t("file"))}</span>)}
            <span class="state">{[describeState(message), message.why].filter(Boolean).join(": ")}</span>
            {message.state !== "accepted" ? (
              <span class="options">
                {message.state === "sending" ? null : <button type="button" class="tiny" onClick={() => outgoing.again(key, message)}>{message.state === "refused" ? t("Send again") : t("Try now")}</button>}
                {outgoing.isHere(key, message) ? (
                  <>
                    <button type="button" class="tiny" onClick={() => outgoing.takeBack(key, message) && edit(message)}>{t("Edit")}</button>
                    <button type="button" class="tiny" onClick={() => outgoing.takeBack(key, message)}>{t("Discard")}</button>
                  </>
                ) : null}
              </span>
            ) : null}
          </div>
        </li>
      ))}
    </>
  );
}
