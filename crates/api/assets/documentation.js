// Draws the document: an entry per operation, with its parameters, bodies and answers. Text is only ever set as text.
"use strict";

const $ = (id) => document.getElementById(id);

function make(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
  node.append(...children.filter((child) => child !== undefined && child !== null));
  return node;
}

const code = (text) => make("code", {}, text);
const json = (value) => make("pre", {}, JSON.stringify(value, null, 2));
const named = (ref) => ref.split("/").pop();

/// The words for a schema's type, such as "list of Amount or null".
function kind(schema) {
  if (!schema) return "";
  if (schema.$ref) return named(schema.$ref);
  const choice = schema.oneOf || schema.anyOf;
  if (choice) return choice.map(kind).join(" or ");
  if (schema.allOf) return schema.allOf.map(kind).join(" and ");
  const types = [].concat(schema.type || "anything");
  return types.map((type) => (type === "array" ? `list of ${kind(schema.items)}` : type)).join(" or ");
}

function rows(members, required) {
  return Object.entries(members).map(([name, schema]) => {
    const about = [schema.description, schema.enum && `One of ${schema.enum.join(", ")}.`].filter(Boolean).join(" ");
    return make("tr", {}, make("td", {}, code(name)), make("td", {}, kind(schema)),
      make("td", {}, required.includes(name) ? "required" : ""), make("td", {}, about));
  });
}

function table(...body) {
  return make("table", {}, make("tbody", {}, ...body));
}

/// The members of a schema, and under them those of every schema it names, each once.
function members(api, schema, seen = new Set()) {
  const parts = [];
  if (!schema) return parts;
  if (schema.$ref) {
    const name = named(schema.$ref);
    if (seen.has(name)) return parts;
    seen.add(name);
    const target = api.components.schemas[name];
    const own = [target].concat(target.allOf || []);
    const lines = own.flatMap((part) => rows(part.properties || {}, part.required || []));
    parts.push(make("h4", {}, name));
    if (target.description) parts.push(make("p", {}, target.description));
    if (lines.length) parts.push(table(...lines));
    return parts.concat(...own.map((part) => members(api, { ...part, $ref: undefined }, seen)));
  }
  const inner = [schema.items, ...(schema.allOf || []), ...(schema.oneOf || []), ...Object.values(schema.properties || {})];
  return parts.concat(...inner.filter(Boolean).map((part) => members(api, part, seen)));
}

function fold(title, ...content) {
  return make("details", {}, make("summary", {}, title), make("div", {}, ...content));
}

function parameters(list) {
  const line = (it) => make("tr", {}, make("td", {}, code(it.name)), make("td", {}, `${it.in}, ${kind(it.schema)}`),
    make("td", {}, it.required ? "required" : ""),
    make("td", {}, it.description || "", " ", code(JSON.stringify(it.example))));
  return [make("h4", {}, "Parameters"), table(...list.map(line))];
}

function access(security) {
  const words = { apiKey: "x-api-key", bearer: "Authorization: Bearer <key>", operator: "the operator's token" };
  const ways = (security || []).flatMap((way) => Object.keys(way)).map((way) => words[way] || way);
  const free = (security || []).some((way) => Object.keys(way).length === 0);
  return `${free ? "Open to anyone; a key raises the limits" : "Needs"}: ${ways.join(", or ")}`;
}

function answer(api, status, response) {
  const content = (response.content || {})["application/json"];
  const parts = [];
  const headers = Object.keys(response.headers || {});
  if (headers.length) parts.push(make("p", { class: "faint" }, `Headers: ${headers.join(", ")}`));
  if (content && content.example !== undefined) parts.push(make("h4", {}, "Example"), json(content.example));
  for (const [name, example] of Object.entries((content && content.examples) || {})) {
    parts.push(make("h4", {}, name), json(example.value));
  }
  if (content) parts.push(...members(api, content.schema));
  return fold(`${status} ${response.description}`, ...parts);
}

function operation(api, path, method, it) {
  const body = it.requestBody && it.requestBody.content["application/json"];
  const parts = [make("p", {}, it.description || ""), make("p", { class: "faint" }, access(it.security))];
  if ((it.parameters || []).length) parts.push(...parameters(it.parameters));
  if (body) parts.push(make("h4", {}, "Body"), json(body.example), fold("Members of the body", ...members(api, body.schema)));
  parts.push(make("h4", {}, "Answers"), ...Object.entries(it.responses).map(([status, response]) => answer(api, status, response)));
  const title = make("summary", {}, make("span", { class: `method ${method}` }, method), " ", code(path), " ", it.summary || "");
  return make("details", { id: it.operationId, class: "operation" }, title, make("div", {}, ...parts));
}

function draw(api) {
  $("title").textContent = `${api.info.title} ${api.info.version}`;
  $("about").textContent = api.info.description || "";
  const groups = new Map();
  for (const [path, item] of Object.entries(api.paths)) {
    for (const [method, it] of Object.entries(item)) {
      const tag = (it.tags || ["Other"])[0];
      groups.set(tag, (groups.get(tag) || []).concat([[path, method, it]]));
    }
  }
  const links = [];
  $("operations").replaceChildren();
  for (const [tag, all] of groups) {
    $("operations").append(make("h2", {}, tag), ...all.map((one) => operation(api, ...one)));
    links.push(...all.map(([path, method, it]) => make("li", {}, make("a", { href: `#${it.operationId}` }, `${method.toUpperCase()} ${path}`))));
  }
  $("contents").append(make("ul", {}, ...links));
}

function open() {
  const chosen = location.hash && $(location.hash.slice(1));
  if (chosen && chosen.tagName === "DETAILS") chosen.open = true;
}

function find(word) {
  const sought = word.trim().toLowerCase();
  for (const one of document.querySelectorAll(".operation")) {
    one.hidden = sought !== "" && !one.textContent.toLowerCase().includes(sought);
  }
}

fetch("documentation/json")
  .then((response) => (response.ok ? response.json() : Promise.reject(new Error(`status ${response.status}`))))
  .then((api) => { draw(api); open(); })
  .catch((error) => { $("state").textContent = `The document could not be read: ${error.message}.`; });
addEventListener("hashchange", open);
$("search").addEventListener("input", (event) => find(event.target.value));
