// The npm client against a running server. Prints one JSON object, which the test looks at.
//
//   node client.mjs <base URL> <path of the package's entry>

import { pathToFileURL } from "node:url";

const [base, entry] = process.argv.slice(2);
const { default: OpenAI } = await import(pathToFileURL(entry).href);
const client = new OpenAI({ baseURL: `${base}/v1`, apiKey: "x", maxRetries: 0 });
const seen = {};

const say = (text, more = {}) =>
  client.chat.completions.create({
    model: "m",
    messages: [{ role: "user", content: text }],
    ...more,
  });

async function problem(asked) {
  try {
    await asked;
  } catch (error) {
    return { name: error.constructor.name, status: error.status ?? null, code: error.code ?? null };
  }
  return null;
}

seen.models = (await client.models.list()).data.map((model) => model.id);

const plain = await say("hello there", { user: "node" });
seen.plain = plain.choices[0].message.content;
seen.usage = plain.usage.total_tokens;

seen.stream = [];
for await (const chunk of await say("a b", { user: "node", stream: true })) {
  if (chunk.choices[0]?.delta?.content) seen.stream.push(chunk.choices[0].delta.content);
}

const helper = client.chat.completions.stream({
  model: "m",
  messages: [{ role: "user", content: "c" }],
  user: "node",
});
seen.helper = await helper.finalContent();

const first = await client.responses.create({ model: "m", input: "one" });
seen.response = first.output_text;
const second = await client.responses.create({
  model: "m",
  input: [{ role: "user", content: [{ type: "input_text", text: "two" }] }],
  previous_response_id: first.id,
});
seen.continued = second.output_text;

seen.events = [];
const events = await client.responses.create({
  model: "m",
  input: "three",
  previous_response_id: second.id,
  stream: true,
});
for await (const event of events) seen.events.push(event.type);

const stream = client.responses.stream({ model: "m", input: "four" });
seen.final = (await stream.finalResponse()).output_text;

seen.bad = await problem(say("!bad"));
seen.boom = await problem(say("!boom"));
seen.away = await problem(say("!away"));
seen.tools = await problem(
  say("x", { tools: [{ type: "function", function: { name: "f", parameters: {} } }] }),
);
seen.lost = await problem(
  client.responses.create({ model: "m", input: "x", previous_response_id: "resp_x" }),
);
seen.stale = await problem(
  client.responses.create({ model: "m", input: "x", previous_response_id: first.id }),
);
seen.midway = await problem(
  (async () => {
    for await (const _ of await say("a !boom", { stream: true }));
  })(),
);

const cut = await say("a @door b", { user: "cut", stream: true });
for await (const chunk of cut) {
  if (chunk.choices[0]?.delta?.content === " a") break;
}
cut.controller.abort();
seen.after = (await say("after", { user: "cut" })).choices[0].message.content;

console.log(JSON.stringify(seen));
