// Which rows and messages on their way the reader opened. Only the reader opens or closes one, never an update, nor that it
// leaves the screen.

import type { OutgoingMessage } from "../outgoing.ts";
import type { Row } from "../transcript.ts";

export type Foldable = Row | OutgoingMessage;

const opened = new WeakSet<Foldable>();
const parts = new WeakMap<Row, Map<string, boolean>>();

export const isOpened = (owner: Foldable): boolean => opened.has(owner);

export function setOpened(owner: Foldable, open: boolean): void {
  if (open) opened.add(owner);
  else opened.delete(owner);
}

/** Whether the reader opened or closed a part of a row; undefined if neither. */
export const isPartOpened = (row: Row | undefined, part: string): boolean | undefined => row && parts.get(row)?.get(part);

export function setPartOpened(row: Row | undefined, part: string, open: boolean): void {
  if (row) parts.set(row, (parts.get(row) ?? new Map()).set(part, open));
}
