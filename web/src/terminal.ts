// The colours that a program's output has for a terminal; loaded when the first such output is shown.

import { AnsiUp } from "ansi_up";

/** Output with its colours, as HTML with classes. It is not sanitised yet (sanitised.ts does that). */
export function terminalHtml(text: string): string {
  const terminal = new AnsiUp();
  terminal.use_classes = true;
  return terminal.ansi_to_html(text);
}
