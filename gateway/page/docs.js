// Renders what /openapi.json says: each operation with what it takes, what it answers, and a curl that sends it.

import { $, copy, make } from "./dom.js";

const METHODS = ["get", "post", "put", "patch", "delete"];
const DEEPEST = 3; // Schemas inside schemas that are shown.

let spec;
const local = {}; // Schemas that are defined where they are used.

async function start() {
  const response = await fetch("/openapi.json", { credentials: "same-origin" }).catch(() => null);
  if (!response?.ok) {
    const why = response === null ? "The server cannot be reached." : response.status === 401 ? "This server asks for a token." : `The server answered ${response.status}.`;
    $("notice").append(`${why} `, make("a", { href: "/" }, response?.status === 401 ? "Sign in" : "Back to the room"));
    $("notice").hidden = false;
    return;
  }
  spec = await response.json();
  collect(spec);
  $("version").textContent = `API ${spec.info.version}`;
  $("about").textContent = spec.info.description ?? "";
  for (const [tag, operations] of grouped()) {
    $("contents").append(make("h2", {}, tag), make("ul", {}, ...operations.map(entry)));
    $("operations").append(...operations.map(show));
  }
  if (location.hash) document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
}

function grouped() {
  const groups = new Map();
  for (const [path, methods] of Object.entries(spec.paths)) {
    for (const method of METHODS.filter((name) => methods[name])) {
      const operation = { path, method, id: `${method}-${path.replaceAll(/[^a-z0-9]+/gi, "-")}`, ...methods[method] };
      const tag = operation.tags?.[0] ?? "Other";
      groups.set(tag, [...(groups.get(tag) ?? []), operation]);
    }
  }
  return groups;
}

const badge = (method) => make("span", { class: "method", "data-method": method }, method.toUpperCase());

const entry = ({ id, method, path }) => make("li", {}, make("a", { href: `#${id}` }, badge(method), path));

function show(operation) {
  const { id, method, path, description, summary, parameters = [] } = operation;
  const body = schemaOf(operation.requestBody);
  return make("section", { class: "operation", id, "aria-label": `${method.toUpperCase()} ${path}` },
    make("h3", {}, badge(method), path),
    ...(description ?? summary ?? "").split("\n\n").map((text) => make("p", { class: "text" }, ...code(text))),
    parameters.length ? part("Parameters", make("dl", { class: "fields" }, ...parameters.map(parameter))) : null,
    body ? part("Body", fields(body, 0)) : null,
    part("Send it", curl(operation, body)),
    answers(operation));
}

// `names` stand out.
const code = (text) => text.split("`").map((piece, index) => (index % 2 ? make("code", {}, piece) : piece));

const part = (title, content) => make("div", {}, make("h4", {}, title), content);

const parameter = (item) => field(`${item.name} (${item.in})`, { ...item.schema, description: item.description ?? item.schema?.description }, item.required, DEEPEST);

function answers({ responses = {} }) {
  const rows = Object.entries(responses).map(([status, response]) => {
    const schema = schemaOf(response);
    const nested = schema && resolved(schema).properties ? fields(schema, 1) : null;
    return make("div", {}, make("dt", {}, status), make("dd", {}, ...code(response.description ?? "")), nested);
  });
  return make("details", {}, make("summary", {}, "Answers"), make("dl", { class: "fields" }, ...rows));
}

// Schemas.

function collect(at) {
  if (at === null || typeof at !== "object") return;
  for (const [name, schema] of Object.entries(at.$defs ?? {})) local[`#/$defs/${name}`] = schema;
  for (const value of Object.values(at)) collect(value);
}

const schemaOf = (holder) => holder?.content?.["application/json"]?.schema ?? null;

function resolved(schema) {
  if (schema?.$ref) {
    const found = local[schema.$ref] ?? schema.$ref.split("/").slice(1).reduce((at, step) => at?.[step.replaceAll("~1", "/")], spec);
    return resolved(found ?? {});
  }
  return schema ?? {};
}

function fields(schema, depth) {
  const { properties = {}, required = [] } = resolved(schema);
  const rows = Object.entries(properties).map(([name, value]) => field(name, value, required.includes(name), depth));
  return rows.length ? make("dl", { class: "fields" }, ...rows) : make("p", { class: "quiet" }, kind(schema));
}

function field(name, schema, required, depth) {
  const target = inner(schema);
  const about = resolved(schema).description ?? schema.description;
  return make("div", {},
    make("dt", {}, name, required ? make("span", { class: "required" }, "required") : null),
    make("dd", {}, make("span", { class: "kind" }, kind(schema)), fallback(schema), about ? make("div", {}, ...code(about)) : null),
    depth < DEEPEST && target ? fields(target, depth + 1) : null);
}

function fallback(schema) {
  const value = schema.default;
  return value === undefined || value === null || value === "" ? null : `, ${JSON.stringify(value)} by default`;
}

// The object that a schema holds, itself or in a list or as one of several.
function inner(schema) {
  const at = resolved(schema);
  if (at.properties) return at;
  for (const next of [at.items, ...(at.anyOf ?? []), ...(at.oneOf ?? [])]) {
    const found = next && inner(next);
    if (found) return found;
  }
  return null;
}

function kind(schema) {
  const at = resolved(schema);
  if (at.const !== undefined) return JSON.stringify(at.const);
  if (at.enum) return at.enum.map((value) => JSON.stringify(value)).join(" | ");
  const several = at.anyOf ?? at.oneOf ?? at.allOf;
  if (several) return [...new Set(several.map(kind))].join(" or ");
  if (at.type === "array") return `list of ${kind(at.items ?? {})}`;
  const bounds = [["minLength", "at least", "characters"], ["maxLength", "at most", "characters"], ["minimum", "from", ""], ["maximum", "to", ""]]
    .filter(([name]) => at[name] !== undefined).map(([name, before, after]) => `${before} ${at[name]} ${after}`.trim());
  return [at.type ?? "anything", ...bounds].join(", ");
}

// An example, as small as may be.
function example(schema, name = "") {
  const at = resolved(schema);
  if (at.examples?.length) return at.examples[0];
  if (at.const !== undefined) return at.const;
  if (at.enum) return at.enum.includes("user") ? "user" : at.enum[0];
  const several = at.anyOf ?? at.oneOf ?? at.allOf;
  if (several) return example(several[0], name);
  if (at.properties) {
    const wanted = Object.keys(at.properties).filter((key) => at.required?.includes(key) || ["content", "model"].includes(key));
    return Object.fromEntries(wanted.map((key) => [key, example(at.properties[key], key)]));
  }
  if (at.type === "array") return [example(at.items ?? {}, name)];
  return { integer: 1, number: 1, boolean: false, object: {}, null: null }[at.type] ?? (SAMPLES[name] ?? name);
}

const SAMPLES = { key: "local/alice", session: "alice", content: "Hello!", input: "Hello!", model: "greenroom" };

function curl({ method, path, parameters = [] }, body) {
  const at = path.replaceAll(/\{(\w+)(:\w+)?\}/g, (_, name) => SAMPLES[name] ?? name);
  const query = parameters.filter((item) => item.in === "query" && item.required)
    .map((item) => `${item.name}=${encodeURIComponent(example(item.schema ?? {}, item.name))}`).join("&");
  const lines = [`curl ${method === "get" ? "" : `-X ${method.toUpperCase()} `}'${location.origin}${at}${query ? `?${query}` : ""}'`];
  if (spec.components?.securitySchemes) lines.push(`  -H "Authorization: Bearer $GREENROOM_TOKEN"`);
  if (body) lines.push("  -H 'Content-Type: application/json'", `  -d '${JSON.stringify(example(body)).replaceAll("'", "'\\''")}'`);
  const text = make("pre", { tabindex: 0 }, lines.join(" \\\n"));
  const button = make("button", { type: "button", class: "small", "aria-label": `Copy the curl for ${method.toUpperCase()} ${path}` }, "Copy");
  button.addEventListener("click", async () => {
    const done = await copy(text.textContent, text);
    $("said").textContent = button.textContent = done ? "Copied" : "Selected";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  return make("div", { class: "copyable" }, text, button);
}

start();
