// Which rows the reader opened. Only the reader opens or closes one, never an update, nor that it leaves the screen.

import type { Row } from "../transcript.ts";

const opened = new WeakSet<Row>();
const parts = new WeakMap<Row, Map<string, boolean>>();

export const isOpened = (row: Row): boolean => opened.has(row);

export function setOpened(row: Row, open: boolean): void {
  if (open) opened.add(row);
  else opened.delete(row);
}

/** Whether the reader opened or closed a part of a row; undefined if neither. */
export const isPartOpened = (row: Row | undefined, part: string): boolean | undefined => row && parts.get(row)?.get(part);

export function setPartOpened(row: Row | undefined, part: string, open: boolean): void {
  if (row) parts.set(row, (parts.get(row) ?? new Map()).set(part, open));
}
