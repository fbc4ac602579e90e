// What markdown-it asks of the package `entities`, by the browser's own table of HTML entities: 13 kB less to load.

const parser = new DOMParser();

/** The character that an entity such as `&copy;` stands for; anything else as it is. Its document is inert. */
export function decodeHTMLStrict(entity: string): string {
  if (!/^&#?[a-z0-9]+;$/i.test(entity)) return entity;
  return parser.parseFromString(`<p>${entity}`, "text/html").body.textContent ?? entity;
}
