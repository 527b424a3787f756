
// Draws the page, then adds filters and keys to its lists of elements.

const data = JSON.parse(document.getElementById("data").textContent);
({ capture: drawCapture, index: drawIndex, survey: drawSurvey, trails: drawTrails, trend: drawTrend })[data.kind](data);

for (const section of document.querySelectorAll(".elements")) {
  const bar = section.querySelector(".filters");
  const items = [...section.querySelectorAll(".finding")];
  if (items.length < 6) continue;  // few enough to see at once
  const input = bar.querySelector("input"), shown = bar.querySelector(".shown"), buttons = [...bar.querySelectorAll("button")];
  const texts = new Map();
  const textOf = (item) => {
    if (!texts.has(item)) texts.set(item, item.textContent.toLowerCase());
    return texts.get(item);
  };
  const update = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const pressed = {};
    for (const button of buttons) {
      if (button.getAttribute("aria-pressed") === "true") (pressed[button.dataset.key] ??= []).push(button.dataset.value);
    }
    let count = 0;
    for (const item of items) {
      const chosen = Object.entries(pressed).every(([key, values]) => values.includes(item.dataset[key]));
      item.hidden = !(chosen && words.every((word) => textOf(item).includes(word)));
      count += !item.hidden;
    }
    const all = count === items.length;
    shown.textContent = all ? "" : `${count.toLocaleString("en")} of ${items.length.toLocaleString("en")}`;
  };
  input.addEventListener("input", update);
  for (const button of buttons) {
    button.addEventListener("click", () => {
      button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true"));
      update();
    });
  }
  bar.hidden = false;
}

// j and k go through the elements, / goes to the filter, Escape leaves it.
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target instanceof HTMLInputElement;
  if (typing) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.key === "/") {
    const input = [...document.querySelectorAll(".filters:not([hidden]) input")][0];
    if (!input) return;
    event.preventDefault();
    input.focus();
    return;
  }
  const step = { j: 1, k: -1 }[event.key];
  if (!step) return;
  const rows = [...document.querySelectorAll(".finding:not([hidden]) > summary")];
  if (rows.length === 0) return;
  const at = rows.indexOf(document.activeElement);
  const next = rows[at < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(Math.max(at + step, 0), rows.length - 1)];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
});

// What is folded is printed where it is a section, and not where it is one of many elements.
addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details.maps:not([open])")) {
    details.open = true;
    details.dataset.folded = "";
  }
});
addEventListener("afterprint", () => {
  for (const details of document.querySelectorAll("details[data-folded]")) {
    details.open = false;
    delete details.dataset.folded;
  }
});

// The link of the section that is read.
const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
if (links.size > 0 && "IntersectionObserver" in window) {
  const visible = new Set();
  const observer = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) isIntersecting ? visible.add(target.id) : visible.delete(target.id);
    const here = [...links.keys()].find((id) => visible.has(id));
    if (!here) return;
    for (const [id, link] of links) link.classList.toggle("here", id === here);
  });
  for (const id of links.keys()) {
    const target = document.getElementById(id);
    if (target) observer.observe(target);
  }
}
