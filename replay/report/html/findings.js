// The elements out of tolerance: a card for each group, and a list of elements.

const apart = ({ observed, expected }) => general(Math.abs(Number(observed) - Number(expected)), 3);

// A list of facts, and those that are lists of objects as tables, a column for each object.
function drawEvidence(evidence) {
  const isTable = ([, value]) => Array.isArray(value) && value[0]?.constructor === Object;
  const text = (value) => {
    const whole = isNumber(value) ? general(value, 9) : typeof value === "string" ? value : JSON.stringify(value);
    return whole.length > 400 ? `${whole.slice(0, 400)} ... (all of it: --json)` : whole;
  };
  const entries = Object.entries(evidence), tables = entries.filter(isTable);
  if (entries.length === 0) return null;
  return make("details.evidence", make("summary", "Evidence"),
    described("facts", entries.filter((entry) => !isTable(entry)).map(([name, value]) => [name, text(value)])),
    tables.map(([, objects]) => make("div.scroll", make("table.evidence", [...new Set(objects.flatMap(Object.keys))].map((name) =>
      make("tr", make("th", { scope: "row" }, name), objects.map((object) => make("td", name in object && text(object[name])))))))));
}

const drawings = (finding, isWorst) =>
  make("div.drawings", drawCells(finding), drawJump(finding), isWorst && finding.pixel && drawPixel(finding.pixel));

function drawValues(finding, tolerance) {
  const row = (style, name, number, digits) => make(`tr.${style}`, make("th", { scope: "row" }, name), make("td", general(number, digits)));
  return make("div.scroll", make("table.values",
    row("observed-row", "recorded", finding.observed, 9), row("expected-row", finding.against, finding.expected, 9),
    finding.against !== "float64" && row("", "float64", finding.float64, 9), row("", "apart", apart(finding)),
    tolerance && row("", "allowed", tolerance.atol + tolerance.rtol * Math.abs(finding.expected), 3)));
}

// `about` is {invocation, id, flags}: the invocation, what the ids of its elements begin with, and the words of a command
// line that name it.
function drawGroup(group, number, { invocation, id, flags }) {
  const worst = invocation.findings[group.worst], isSeveral = group.count > worst.count;
  return make(`article.group.${group.grade}`, { id: `${id}-group${number}` },
    chips(chip(group.grade, group.grade), chip("cause", group.cause), chip("plain", `at fault: ${group.party}`)),
    make("h4", capitalized(group.title)),
    make("div.worst",
      described("described", [
        ["where", isSeveral && group.where], ["how", isSeveral && group.how],
        [isSeveral ? "worst" : "element", [make("code", elementName(worst)), ` ${worst.place}`]], ["why", worst.why],
        ["what to do", [group.help, group.type && command(group.type),
          group.stages && command(`msda-replay stages ${flags} --element '${elementName(worst)}'`)]]]),
      drawValues(worst, invocation.tolerance)),
    drawings(worst, true), drawEvidence(worst.evidence));
}

function drawGroups(about) {
  const { groups } = about.invocation, elsewhere = groups.filter((group) => group.reported > 0);
  const advised = sum(elsewhere, (group) => group.count), reported = sum(elsewhere, (group) => group.reported);
  return [groups.map((group, i) => !(group.reported > 0) && drawGroup(group, i, about)),
    reported > 0 && quiet(`A test against ${about.invocation.findings[elsewhere[0].worst].against} in float32 fails in ${plural(advised, "element")}, ` +
      `${reported === advised ? "reported" : `${count(reported)} of them reported`} above for the same cause.`)];
}

// One element of the list, closed at first.
function drawElement(finding, number, { invocation, id }) {
  const isWorst = invocation.groups[finding.group].worst === number;
  return make("details.finding", { id: `${id}-${number}`, "data-tensor": finding.tensor, "data-cause": finding.cause },
    make("summary",
      make("span.element.mono", elementName(finding), finding.count > 1 && ` and ${count(finding.count - 1)} more`),
      make("span.chips", finding.advisory ? chip("note", `${finding.cause}, advice`) : chip("cause", finding.cause)),
      [general(finding.observed, 7), general(finding.expected, 7), apart(finding)].map((text) => make("span.number", text))),
    described("described", [["where", finding.place], ["values", finding.values], ["why", finding.why], ["at fault", finding.party]]),
    drawings(finding, isWorst), drawEvidence(finding.evidence));
}

// A field and buttons that show some of the elements alone.
function drawFilters(findings) {
  const buttons = (what) => {
    const names = [...new Set(findings.map((finding) => finding[what]))];
    return names.length > 1 && make("span.choices", { role: "group", "aria-label": what }, names.map((name) =>
      make("button", { type: "button", "aria-pressed": "false", "data-key": what, "data-value": name }, name)));
  };
  return make("div.filters", { hidden: true },
    make("label.search", make("span", "Filter"), make("input", { type: "search", placeholder: "index, place, reason", autocomplete: "off" })),
    buttons("tensor"), buttons("cause"), make("span.quiet.shown", { role: "status" }),
    make("span.quiet.keys", make("kbd", "j"), make("kbd", "k"), " next, previous ", make("kbd", "Enter"), " open ", make("kbd", "/"), " filter"));
}

function drawElements(about) {
  const { invocation: { findings, groups }, id } = about;
  const all = sum(groups, (group) => group.count), shown = sum(findings, (finding) => finding.count);
  return make("section.elements", { id: `${id}-elements` }, make("h3", "Elements"),
    quiet(shown >= all ? `${plural(all, "element")} out of tolerance, advice included.`
      : `${count(shown)} of ${plural(all, "element")} out of tolerance, advice included: of each group the worst, and others spread over ` +
        "it. run --json has the indices of all."),
    drawFilters(findings),
    make("div.list",
      make("div.list-head", { "aria-hidden": "true" }, ["element", "cause"].map((name) => make("span", name)),
        ["recorded", "expected", "apart"].map((name) => make("span.number", name))),
      findings.map((finding, i) => drawElement(finding, i, about))));
}
