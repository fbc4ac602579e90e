// The colours that a program's output has for a terminal; loaded when the first such output is shown.

import { AnsiUp } from "ansi_up";

/** Output with its colours, as HTML with classes. It is not sanitised yet (sanitised.ts does that). */
export function terminalHtml(text: string): string {
  const terminal = new AnsiUp();
  terminal.use_classes = true;
  terminal.boldStyle = "ansi-bold";
  terminal.faintStyle = "ansi-faint";
  terminal.italicStyle = "ansi-italic";
  terminal.underlineStyle = "ansi-underline";
  return terminal.ansi_to_html(text).replace(STYLED, (_, styles: string, colours = "") => {
    const names = styles.split(";").filter((name) => name.startsWith("ansi-"));
    return `<span class="${[...names, colours].join(" ").trim()}">`;
  });
}

// What ansi_up writes of weight and slant, and of colours without a class: the page's policy refuses every style.
const STYLED = /<span style="([^"]*)"(?: class="([^"]*)")?>/g;
