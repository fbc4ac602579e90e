// Whether the window is as narrow as a phone's.

import { type ReadonlySignal, signal } from "@preact/signals";

const query = matchMedia("(max-width: 760px)"); // as in the style sheets
const state = signal(query.matches);
query.addEventListener("change", () => (state.value = query.matches));

export const isNarrow: ReadonlySignal<boolean> = state;
