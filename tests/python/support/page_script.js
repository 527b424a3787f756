// Runs the script of a page, as a browser does, and prints the page that it draws: node page_script.js PAGE.html
// A document of its own has as much of the DOM as the script needs to draw.
"use strict";
const fs = require("fs");
const vm = require("vm");

const escaped = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;");
const isNode = (child) => child instanceof Element;

class Element {
  constructor(name) {
    this.nodeName = name.toUpperCase();
    this.name = name;
    this.attributes = new Map();
    this.children = [];
  }
  setAttribute(name, value) {
    if (!/^[\w-]+$/.test(name)) throw new Error(`not the name of an attribute: ${name}`);
    this.attributes.set(name, String(value));
  }
  append(...children) {
    this.children.push(...children.map((child) => (isNode(child) ? child : String(child))));
  }
  get textContent() {
    return this.children.map((child) => (isNode(child) ? child.textContent : child)).join("");
  }
  toString() {
    const attributes = [...this.attributes].map(([name, value]) => ` ${name}="${escaped(value)}"`).join("");
    const begin = `<${this.name}${attributes}`;
    if (["input", "path", "rect", "circle"].includes(this.name)) return `${begin}/>`;
    return `${begin}>${this.children.map((child) => (isNode(child) ? child : escaped(child))).join("")}</${this.name}>`;
  }
}

const page = fs.readFileSync(process.argv[2], "utf8");
const parts = page.match(/^(.*<\/svg>\n)<noscript>.*<\/noscript>\n<script type="application\/json" id="data">(.*)<\/script>\n<script>(.*)<\/script>\n(.*)$/s);
const [, begin, data, script, end] = parts;
const body = new Element("body"), embedded = new Element("script");
embedded.append(data);
const document = {
  body,
  createElement: (name) => new Element(name),
  createElementNS: (_, name) => new Element(name),
  getElementById: () => embedded,
  querySelectorAll: () => [],
  addEventListener: () => {},
};
vm.runInNewContext(script, { document, window: {}, addEventListener: () => {} });
process.stdout.write(begin + body.children.join("") + end);
