// Finds bare addresses in a text, such as https://example.org. Loaded with the first text that may have one.

import { LinkifyIt } from "linkify-it";

export const finder = new LinkifyIt();
