// Asks an agent with OpenAI's own client: node openai_chat.mjs BASE_URL API_KEY, a request as JSON on stdin.
// A request with `stream` is read piece by piece. With `key`, a request whose stream broke off is sent again with it.
import OpenAI from "openai";
import { text } from "node:stream/consumers";

const [baseURL, apiKey] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey });
const { key, ...request } = JSON.parse(await text(process.stdin));
const options = key ? { headers: { "Idempotency-Key": key } } : {};

async function ask() {
  if (!request.stream) return (await client.chat.completions.create(request, options)).choices[0].message.content;
  let answer = "";
  for await (const chunk of await client.chat.completions.create(request, options)) {
    answer += chunk.choices[0]?.delta?.content ?? "";
  }
  return answer;
}

const models = (await client.models.list()).data.map((model) => model.id);
try {
  console.log(JSON.stringify({ models, answer: await ask() }));
} catch (error) {
  console.log(JSON.stringify({ models, status: error.status, code: error.code, message: error.message }));
}
