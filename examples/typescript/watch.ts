// Sends a message to a session, follows the answer live, and prints the entries of the session as JSON at the end.
//
//   node dist/watch.js KEY TEXT      SEMEL_URL: where the gateway is; SEMEL_TOKEN: the owner's token, if it needs one

import { randomUUID } from "node:crypto";
import { EventSourceParserStream } from "eventsource-parser/stream";
import createClient from "openapi-fetch";
import type { paths } from "./schema.js";
import { View, type Entry, type Frame } from "./view.js";

const [key, text] = process.argv.slice(2);
if (key === undefined || text === undefined) throw new Error("usage: node dist/watch.js KEY TEXT");

const token = process.env["SEMEL_TOKEN"];
const client = createClient<paths>({
  baseUrl: process.env["SEMEL_URL"] ?? "http://127.0.0.1:8420",
  ...(token ? { headers: { Authorization: `Bearer ${token}` } } : {}),
});
const session = { path: { key } };

/** The frames of a session, for ever: a stream that breaks is resumed after the last rev that the view has. */
async function* frames(view: View): AsyncGenerator<Frame> {
  for (;;) {
    try {
      const query = view.rev === undefined ? {} : { after: view.rev };
      const { data, error } = await client.GET("/v1/sessions/{key}/stream", {
        params: { ...session, query },
        parseAs: "stream",
      });
      if (error) throw new Error(error.detail);
      const events = data!.pipeThrough(new TextDecoderStream()).pipeThrough(new EventSourceParserStream());
      for await (const event of events) yield JSON.parse(event.data) as Frame;
    } catch (error) {
      if (!(error instanceof TypeError)) throw error; // fetch throws a TypeError if the connection fails or breaks
    }
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
}

/** Whether the turn that took the event has ended: its entry then has `ended`, after all that the turn said. */
function isAnswered(view: View, event: number): boolean {
  return [...view.entries.values()].some((entry) => entry.event === event && entry.ended !== undefined);
}

const { data: accepted, error } = await client.POST("/v1/sessions/{key}/messages", {
  params: session,
  body: { text, id: randomUUID() }, // with an id, a repeat is accepted only once
});
if (error) throw new Error(error.detail);

const view = new View();
for await (const frame of frames(view)) {
  view.apply(frame);
  for (const item of view.items.values()) if (item.kind === "tool") process.stderr.write(`${item.title}: ${item.status}\n`);
  if (isAnswered(view, accepted.event)) break;
}
const entries: Entry[] = view.rows().filter((row): row is Entry => "seq" in row);
process.stdout.write(JSON.stringify(entries));
