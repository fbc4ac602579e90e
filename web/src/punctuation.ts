// What markdown-it asks of the package `uc.micro`, by the browser's own table of characters: 2 kB less to load.

export const P = /\p{P}/u;
export const S = /\p{S}/u;
