// Runs an agent with AG-UI's own client: node ag_ui.mjs PACKAGE URL TOKEN THREAD, a list of steps as JSON on stdin.
// A step is {"say": TEXT}, {"resume": PAYLOAD} or {"cancel": true}, with a `run` id; a step with none runs again what
// was there. With {"elsewhere": OPTION, "by": NAME}, somebody else answers the open requests just before. With
// {"stop": CLASS}, the agent is one of this subclass of HttpAgent, in TypeScript, and is aborted at its first text. With {"reload": true}, the page is loaded again before it.
// Prints, for each step, the types of its events, the error or the outcome, and the messages the client then has.
import { text } from "node:stream/consumers";

const [library, url, token, threadId] = process.argv.slice(2);
const { HttpAgent } = await import(library);
const open = (Agent = HttpAgent) => new Agent({ url, threadId, headers: { Authorization: `Bearer ${token}` } });
let agent = open();
const steps = JSON.parse(await text(process.stdin));
const results = [];
const session = `${url.split("/").at(-1)}:web:ag-ui-${threadId}`;
const post = (operation, body) => fetch(new URL(`/v1/sessions/${session}/${operation}`, url), {
  method: "POST",
  headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
  body: JSON.stringify(body),
});
const readClass = async (source) => {
  const { default: ts } = await import("typescript");
  const code = ts.transpile(`return ${source}`, { target: "es2022" });
  return new Function("HttpAgent", code)(HttpAgent);
};

for (const step of steps) {
  if (step.reload) agent = open();
  if (step.stop) agent = open(await readClass(step.stop)).clone();
  if (step.say) agent.addMessage({ id: `user-${step.run}`, role: "user", content: step.say });
  if (step.forget) agent.messages.splice(-1, 1, { ...agent.messages.at(-1), content: step.forget });
  const answer = step.cancel ? { status: "cancelled" } : { status: "resolved", payload: step.resume };
  const resume = step.resume === undefined && !step.cancel ? undefined : agent.pendingInterrupts.map((interrupt) => (
    { interruptId: interrupt.id, ...answer }
  ));
  for (const interrupt of step.elsewhere === undefined ? [] : agent.pendingInterrupts) {
    const item = Number(interrupt.id.replace("request-", ""));
    await post("answers", { item, option: step.elsewhere, by: step.by });
  }
  const result = { events: [], error: null, outcome: null };
  await agent.runAgent({ runId: step.run, resume }, {
    onEvent: ({ event }) => { result.events.push(event.type); },
    onTextMessageStartEvent: () => { if (step.stop) agent.abortRun(); },
    onRunErrorEvent: ({ event }) => { result.error = event.message; },
    onRunFinishedEvent: ({ event }) => { result.outcome = event.outcome?.type; },
  }).catch((error) => { result.error ??= error.message; });
  result.messages = agent.messages.map(({ role, content, toolCalls }) => (
    [role, content ?? toolCalls.map((call) => call.function.name).join()]
  ));
  results.push(result);
}
console.log(JSON.stringify(results));
