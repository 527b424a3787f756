"use strict";
// Draws the page from the result that is embedded in it. Everything that a capture brings becomes a text or the value of
// an attribute, never markup.

const SHAPES = new Set(["svg", "path", "rect", "circle", "g", "text", "title"]);

// make("p.note", {id}, "text", another) returns an element with classes, attributes and children; null is left out.
function make(tag, ...parts) {
  const [name, ...classes] = tag.split(".");
  const element = SHAPES.has(name) ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  const style = classes.filter(Boolean).join(" ");
  if (style) element.setAttribute("class", style);
  for (const part of parts.flat(Infinity)) {
    if (part == null || part === "" || part === false) continue;
    if (part.constructor !== Object) {
      element.append(part);
      continue;
    }
    for (const [key, value] of Object.entries(part)) {
      if (value != null && value !== false) element.setAttribute(key, value === true ? "" : value);
    }
  }
  return element;
}

// Numbers that JSON or JavaScript cannot hold come as texts.
const isNumber = (x) => typeof x === "number";
const count = (n) => n.toLocaleString("en");
const plural = (n, noun) => `${count(n)} ${noun}${n === 1 ? "" : "s"}`;
const sum = (list, value) => list.reduce((all, item) => all + value(item), 0);
const capitalized = (text) => text[0].toUpperCase() + text.slice(1);
const list = (parts, between = ", ") => parts.filter(Boolean).join(between);

// printf's %.{digits}g
function general(x, digits) {
  if (!Number.isFinite(x)) return String(x ?? "");
  if (Object.is(x, -0)) return "-0";
  const [mantissa, exponent] = x.toExponential(digits - 1).split("e");
  const withoutZeros = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
  if (exponent < -4 || exponent >= digits) {
    return `${withoutZeros(mantissa)}e${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
  }
  return withoutZeros(x.toFixed(digits - 1 - exponent));
}

function plain(value) {
  if (Array.isArray(value)) return value.map(plain).join(" ");
  if (value?.constructor === Object) return Object.entries(value).map(([name, part]) => `${name} ${plain(part)}`).join(", ");
  return String(value);
}

const indexText = (index) => `[${index.join(",")}]`;
const elementName = (finding) => finding.tensor + indexText(finding.index);

const chip = (kind, text) => make(`span.chip.${kind}`, text);
const chips = (...parts) => make("p.chips", parts);
const command = (text) => make("pre.command", { tabindex: "0" }, make("code", text));
const quiet = (text) => make("p.quiet", text);
const note = (text) => make("p.note", text);
const lines = (texts) => (texts.length > 0 ? make("pre.text", { tabindex: "0" }, texts.map((text) => `${text}\n`)) : null);

// A description list of those rows that have a text.
function described(style, rows) {
  const shown = rows.filter(([, text]) => text != null && text !== "" && text !== false);
  const tag = style === "facts" ? "dd.mono" : "dd";
  return shown.length > 0 ? make(`dl.${style}`, shown.map(([name, text]) => [make("dt", name), make(tag, text)])) : null;
}
const facts = (object) => described("facts", Object.entries(object).map(([name, value]) => [name, plain(value)]));

const scrolled = (table) => make("div.scroll", { tabindex: "0" }, table);

// A table that scrolls within itself where there is no room for it. The first `texts` columns are texts, the others
// numbers; a row is a list of cells, the first of which may be {class}.
function table(names, texts, rows) {
  const style = (column) => (column < texts ? "" : "number");
  const cells = (tag, row, more) => {
    const [attributes, ...rest] = row[0]?.constructor === Object ? row : [null, ...row];
    const isCell = (cell) => /^T[DH]$/.test(cell?.nodeName);
    return make("tr", attributes, rest.map((cell, column) => (isCell(cell) ? cell : make(`${tag}.${style(column)}`, more, cell))));
  };
  return scrolled(make("table", make("thead", cells("th", names, { scope: "col" })), rows.map((row) => cells("td", row))));
}

const section = (id, title, ...parts) => make("section", { id }, make("h2", title), parts);

// The whole page: what stands at its top, links to its sections, and these.
function drawPage({ style, brand, name, chips: topChips, headline, figures }, links, ...main) {
  document.body.append(
    make(`header.top.${style}`, make("p.brand", make("span", brand), make("span.mono", name)), topChips && chips(topChips), make("h1.wrap", headline),
      figures && make("dl.figures", figures.map(([title, value]) => make("div", make("dt", title), make("dd", value))))),
    make("div.frame",
      make("nav", { "aria-label": "Contents" }, links.map(([id, text]) => make("a", { href: `#${id}` }, text))), make("main", main)));
}

const baseName = (path) => path.slice(path.lastIndexOf("/") + 1);
