// The page of a comparison of runs (docs/diff.schema.json, "trail"): the two beside each other, around the place where they
// part.

const sidePlace = (side) => (side.launch == null ? side.what : `launch ${count(side.launch)}`);

function drawBothSides({ a, b, parameters }) {
  const row = (name, textA, textB) => (textA || textB) && [{ class: textA !== textB && "bad" }, make("th", { scope: "row" }, name),
    ...[textA, textB].map((text) => make("td.wrap.mono", text))];
  const ofSides = (name, text) => row(name, ...[a, b].map((side) => (side ? text(side) : "(none)")));
  return table(["", "A", "B"], 3, [
    ofSides("where", sidePlace), ofSides("kernel", ({ kernel }) => kernel), ofSides("called by", ({ caller }) => list(Object.values(caller))),
    ofSides("launched", ({ configuration: c }) =>
      c && `grid ${JSON.stringify(c.grid)}, block ${JSON.stringify(c.block)}, ${c.shared_bytes} bytes shared`),
    ofSides("code", ({ code }) => code), ofSides("digest", ({ digest }) => digest),
    ...parameters.map((word) => row(`parameters, byte ${word.offset}`, word.a, word.b))].filter(Boolean));
}

function drawFirst(first) {
  if (!first) return section("first", "Where they part", make("p.note.good", "Nowhere: all results that were compared are equal."));
  return section("first", "Where they part", chips(chip("error", first.kind), first.cause && chip("plain", first.cause)),
    first.evidence.map((text) => make("p", text)), drawBothSides(first), make("p", "What to type next:"), command(first.next));
}

function drawAround(rows) {
  const cells = (side) => (!side ? ["", "", ""]
    : [sidePlace(side), make("td.wrap.mono", side.kernel || `${count(side.bytes)} bytes`), make("td.mono", side.digest)]);
  return section("around", "Before and behind", rows.length === 0 && make("p", "Nothing differs."),
    table(["A", "kernel", "digest", "", "B", "kernel", "digest"], 7, rows.map(({ a, b, result }) =>
      [{ class: !["equal", "unknown"].includes(result) && "bad" }, ...cells(a), result, ...cells(b)])));
}

const drawList = (id, title, texts) => texts.length > 0 && section(id, title, make("ul", texts.map((text) => make("li", text))));

function outcomeText(name, { equal, first }) {
  if (equal) return `${name}: equal`;
  const side = first.a ?? first.b;
  return `${name}: ${list([sidePlace(side), side.kernel, first.kind])}`;
}

function drawTrails({ comparison: { a, b, equal, compared, first, around, ranks = [], runs = [], notes }, headline, version }) {
  drawPage({
    style: equal ? "good" : "error", brand: "msda-replay diff", name: `${a} | ${b ?? `${runs.length} other runs`}`, headline,
    figures: [["launches", compared.launches], ["copies", compared.copies], ["sets", compared.sets], ["not comparable", compared.unknown]]
      .map(([name, n]) => [name, count(n)]) },
  [["first", "Where they part"], ["around", "Before and behind"]],
  drawFirst(first), drawAround(around),
  drawList("others", "Ranks and runs",
    [...ranks.map((rank) => outcomeText(`rank ${rank.rank}`, rank)), ...runs.map((run) => outcomeText(run.b, run))]),
  drawList("notes", "Notes", notes), quiet(`Reported with msda-replay ${version}.`));
}
