// The session that the page shows.

import type { Watch } from "./stream.ts";
import type { Transcript } from "./transcript.ts";

export interface OpenSession {
  key: string | null;
  view: Transcript;
  /** null: it is not watched yet. undefined: it gets no changes, because it shows older history alone. */
  watch: Watch | null | undefined;
  /** Whether it begins with its first message. */
  fresh?: boolean;
}
