// Which rows the reader opened. Only the reader opens or closes one, never an update, nor that it leaves the screen.

import type { Row } from "../transcript.ts";

const opened = new WeakSet<Row>();

export const isOpened = (row: Row): boolean => opened.has(row);

export function setOpened(row: Row, open: boolean): void {
  if (open) opened.add(row);
  else opened.delete(row);
}
