// The page of a capture: of each invocation the findings, then tables, maps and charts, as `run`, `stages`, `order`, `stress`
// and `show` print them with --json.

// A grade's colour and word; without elements out of tolerance only surveys drift.
const STYLES = { wrong: "error", good: "good", drift: "warning", undecided: "warning" };
const GRADES = { wrong: "Faulty", good: "Within tolerance", drift: "Varies", undecided: "Undecided" };
const gradeOf = ({ grade, causes }) => [STYLES[grade], Object.keys(causes ?? {}).length > 0 ? "Drift" : GRADES[grade]];
const gradeChips = (verdict) =>
  [chip(...gradeOf(verdict)), Object.entries(verdict.causes).map(([cause, n]) => chip("cause", `${cause} ${count(n)}`))];

function drawComparisons({ comparisons, gradients }) {
  const tensors = gradients.filter((name) => comparisons.some(({ tensor }) => tensor === name));
  return [quiet("ULP: how many numbers of the tensor's type lie between the two; a dash stands for more than 100,000."),
    tensors.map((tensor) => [make("h4", tensor),
      table(["observed", "expected", "out of tolerance", "of", "max abs", "max rel", "max ULP", "worst element"], 2,
        comparisons.filter((c) => c.tensor === tensor).map((c) => [{ class: c.mismatched > 0 && "bad" }, c.observed, c.expected,
          count(c.mismatched), count(c.total), general(c.max_abs, 3), general(c.max_rel, 3),
          c.max_ulp <= 100000 ? String(c.max_ulp) : "-", indexText(c.worst_index)]))])];
}

function drawMaps(maps) {
  return [quiet("The largest difference in each bin, in the logarithmic scale below each map. A dot marks elements out of tolerance, " +
    "which the scale leaves out. Gradients of samples are shown where the sample landed, at the edge if that is outside the image."),
    maps.map(({ tensor, against, differs, images, indices }) => {
      if (!differs) return quiet(`${tensor} from ${against}: no difference.`);
      const isBad = [...images, ...(indices ? [indices] : [])].some(({ outside }) => outside.length > 0);
      return make("details.maps", { open: isBad }, make("summary", `${tensor} from ${against}`, isBad && chip("error", "out of tolerance")),
        make("div.map-row", images.map((map) => drawMap(map, false))), indices && drawMap(indices, true));
    })];
}

const drawHistograms = (histograms, { tolerance, words }) => [
  quiet("How many representable numbers lie between the recorded value and the expected one; counts on a logarithmic scale. " +
    "Hatched: out of tolerance. The line is what the tolerance allows where it allows least " +
    `(${tolerance ? words.tolerance : "no tolerance is set: the customary one of the type"}).`),
  make("div.chart-row", histograms.map(drawHistogram))];

const statistic = (x) => (x == null ? "–" : Number.isInteger(x) && Math.abs(x) < 2 ** 53 ? count(x) : general(x, 7));

function drawElementStages({ tensor, index, first_drift: drift, stages }) {
  const names = stages.length > 0 ? Object.keys(stages[0].values) : [], most = 60;
  const text = (value, name) => (isNumber(value) ? general(value, name === "float64" ? 15 : 9) : statistic(value));
  return make("details.maps", { open: true },
    make("summary", make("code", tensor + indexText(index)), drift == null ? ": no stage drifts" : `: drifts from ${drift} on`),
    stages.length > 0 && table(["stage", "of", ...names, ""], 2, stages.filter((_, i) => i < most || i === stages.length - 1).map((stage) =>
      [{ class: stage.drifts && "bad" }, stage.stage, stage.component,
        ...names.map((name) => text(stage.values[name], name)), make("td", stage.drifts && "drifts")])));
}

function drawStages({ stages, elements = [] }) {
  const row = (name, s, abs, ulp, style) => [{ class: s.nan !== 0 || s.infinite !== 0 ? "bad" : style }, name, count(s.count),
    ...[s.lowest, s.highest, s.zero, s.nan, s.infinite, abs, ulp].map(statistic)];
  return [table(["stage, in float32", "numbers", "lowest", "highest", "zeros", "NaN", "inf", "max from float64", "max ULP"], 1,
    stages.flatMap(({ stage, deterministic, max_abs: abs, max_ulp: ulp, recorded }) => [
      row(stage, deterministic, abs, ulp, null),
      ...(recorded ? [row("  recorded", recorded, recorded.max_abs, recorded.max_ulp, "sub")] : [])])),
    elements.length > 0 && make("h4", "The worst of each group, stage by stage"), elements.map(drawElementStages)];
}

function drawOrder({ kernel_adds: adds, arithmetic, tensor, summary, inversions }) {
  const n = (name) => count(summary[name]);
  const found = arithmetic.found
    ? `Arithmetic: ${arithmetic.product}, ${arithmetic.factors}, sums in ${arithmetic.sum_type}; it explains ` +
      `${count(arithmetic.fits)} of ${count(arithmetic.tried)} pixels with few additions.`
    : "No arithmetic that is known explains the recorded bits, so no order is sought.";
  return [make("p", `${adds}. ${found}`), arithmetic.found && [
    table([`pixels of ${tensor}`, "count"], 1, [
      ["with additions", n("elements")],
      ["one order gives every recorded bit", n("explained")],
      [{ class: "sub" }, "it is the only one", n("unique")],
      [{ class: summary.impossible > summary.in_parts && "bad" }, "no single order does, by proof", n("impossible")],
      [{ class: "sub" }, "an order for each part of the channels does", n("in_parts")],
      [{ class: "sub" }, "as if an addend was lost", n("lost")],
      [{ class: "sub" }, "as if one was added twice", n("doubled")],
      ["not found, which proves nothing", n("not_found")]]),
    inversions.pixels > 0 && drawSchedule(inversions.bins, inversions.index)]];
}

function drawProbability({ failure_probability: whole, confidence, observed, against, interrupted, curve, criterion, ...parts }) {
  const percent = (p) => (100 * p).toFixed(2);
  const tableOf = (title, some) => Object.keys(some).length > 0 && table([title, "of runs"], 1, Object.entries(some).map(([name, p]) =>
    [name, `${percent(p.estimate)} % (${percent(p.low)} to ${percent(p.high)})`]));
  return [make("p.figure-line", make("strong.big", `${percent(whole.estimate)} %`),
    ` of runs fail (${percent(whole.low)} to ${percent(whole.high)}, ${general(100 * confidence, 6)} % interval): ` +
    `${count(whole.failures)} of ${count(whole.runs)} simulated, ${observed} against ${against}.`),
    interrupted && quiet("The simulation was interrupted: this is the result so far."),
    tableOf("runs with such an element, by cause", parts.by_cause), tableOf("by tensor", parts.by_tensor),
    curve && make("div.chart-row", ["atol", "rtol"].map((name) => drawCurve(curve[name], name, criterion[name])))];
}

function drawTensors({ tensors, results }) {
  const row = ({ type, shape, statistics: s }, name) => [{ class: s && (s.nan !== 0 || s.infinite !== 0) && "bad" },
    name, type, indexText(shape), ...(s ? [s.lowest, s.highest, s.zero, s.nan, s.infinite].map(statistic) : Array(5).fill(""))];
  return table(["tensor", "type", "shape", "lowest", "highest", "zeros", "NaN", "inf"], 3, [
    ...tensors.map((tensor) => row(tensor, tensor.path.split("/").slice(3).join("/") || tensor.path)),
    ...results.flatMap((result) => result.tensors.map((tensor) => row(tensor, `results/${result.name}/${tensor.name}`)))]);
}

// The launched function's code; where only another function of the same image is there, what they share.
function codeOf(invocation, kernels) {
  const images = kernels.filter(({ digest }) => digest === invocation.kernel_digest);
  const own = images.find(({ name }) => name === invocation.kernel), kernel = own ?? images.at(-1);
  return kernel && { digest: kernel.digest, architecture: kernel.architecture, image_bytes: kernel.image_bytes, ...own?.facts };
}

function drawLaunch(shown, kernels) {
  const code = codeOf(shown, kernels), elsewhere = ["id", "tensors", "results", "stages", "digests"];
  const here = Object.entries(shown).filter(([name, value]) => !elsewhere.includes(name) && value != null && value !== "");
  return [facts(Object.fromEntries(here)), code && [make("h4", "Code"), facts(code)], make("h4", "Tensors"), drawTensors(shown)];
}

function drawProgram({ facts: machine, libraries, environment, seeds }) {
  const most = 50;
  const parts = [["Machine", machine], ["Libraries", libraries], ["Environment", environment]].filter(([, some]) => Object.keys(some).length > 0);
  return section("program", "Program and machine", parts.map(([title, some]) => [make("h3", title), facts(some)]),
    parts.length === 0 && seeds.length === 0 && quiet("The capture records nothing of them."),
    seeds.length > 0 && [make("h3", "Seeds"), table(["time", "source", "value", "before invocation"], 2,
      seeds.slice(0, most).map(({ time, source, value, invocation }) => [time, source, value, invocation ?? ""].map(plain)))],
    seeds.length > most && quiet(`And ${count(seeds.length - most)} more: msda-replay show --json has them all.`));
}

function drawNotes({ verdict, altered, notes, original_left_out: leftOut, lines: texts, recorded_order: orders, repeats }) {
  return [!verdict.compared && note("Nothing to compare: it has no gradients in its outputs."),
    altered.map((name) => note(`${name} is not what was recorded, its digest differs.`)), notes?.map(note),
    leftOut && note(`Mode original is left out: ${leftOut}`), texts.map(lines),
    Object.entries(orders ?? {}).map(([tensor, { in_order: found, pixels, equal, total }]) => note(`recorded_order: ${tensor}: ` +
      `the order of additions was found for ${count(found)} of ${count(pixels)} pixels; ${count(equal)} of ${count(total)} elements have ` +
      "the recorded bits.")),
    Object.entries(repeats ?? {}).map(([mode, { runs, ...tensors }]) => Object.entries(tensors).map(([tensor, { distinct, spread }]) =>
      note(`${runs} runs of ${mode}: ${distinct} results of ${tensor}, spread ${general(spread, 3)}.`)))];
}

// The sections of an invocation beside its findings: [id, title, title in the navigation, contents].
function detailsOf(invocation, kernels) {
  const { maps, histograms, stages, order, stress, shown } = invocation;
  return [["comparisons", "Comparisons", "Comparisons", () => drawComparisons(invocation)],
    maps.length > 0 && ["maps", "Where the errors are", "Error maps", () => drawMaps(maps)],
    maps.length > 0 && ["ulp", "How large the errors are", "Error sizes", () => drawHistograms(histograms, invocation)],
    stages && ["stages", "Stages", "Stages", () => drawStages(invocation)],
    order && ["order", "Order of additions", "Order", () => drawOrder(order)],
    stress && ["stress", "Failure probability", "Probability", () => drawProbability(stress)],
    ["launch", "Launch", "Launch", () => drawLaunch(shown, kernels)]].filter(Boolean);
}

function drawInvocation(invocation, data) {
  const { id: number, kernel, groups, words, verdict } = invocation, id = `i${number}`, isOneOfSeveral = data.invocations.length > 1;
  const about = { invocation, id, flags: data.flags + (isOneOfSeveral ? ` --invocation ${number}` : "") };
  const details = detailsOf(invocation, data.shown.run.kernels).map(([name, title, , draw]) =>
    make("section", { id: `${id}-${name}` }, make("h3", title), draw()));
  return make("section.invocation", { id }, make("h2", `Invocation ${number}`, kernel && make("span.kernel.mono", kernel)),
    quiet(`${words.conventions}; ${words.tolerance}; ${words.sizes}`), words.label && quiet(`Recorded in ${words.label}`),
    drawNotes(invocation),
    groups.length > 0 ? [make("h3", { id: `${id}-findings` }, "Findings"), drawGroups(about), drawElements(about)]
      : verdict.compared && make(verdict.grade === "good" ? "p.note.good" : "p.note", "Nothing is out of tolerance."),
    // If there are many invocations, those without findings are folded.
    isOneOfSeveral && groups.length === 0 ? make("details.maps", make("summary", "Comparisons, errors, stages, launch"), details) : details);
}

const more = (all, shown) => all > shown && quiet(`And ${count(all - shown)} more.`);

function drawBrief(brief, { flags, most_listed: most }) {
  return section("brief", "Invocations in brief",
    make("p", "Only the first invocations of each kind of finding, and the first without any, are shown in full. To show another one:"),
    command(`msda-replay report ${flags} --invocation N -o invocation.html`),
    make("table.captures", brief.slice(0, most).map(({ id, verdict }) =>
      make("tr", make("td", `Invocation ${id}`), make("td.wrap", verdict.summary)))),
    more(brief.length, most));
}

const drawOthers = ({ relaunched, not_replayed: others, most_listed: most }) => section("others", "Other invocations", lines(relaunched),
  others.slice(0, most).map(({ id, why }) => note(`Invocation ${id} is not replayed: ${why}`)), more(others.length, most));

function drawReproduce({ flags, stress_flags: stressFlags, recorded, verdict, shown, version }) {
  const isDrift = Object.keys(verdict.causes).length > 0;
  return section("reproduce", "How to reproduce",
    make("p", "This verdict, on any machine, without a GPU:"), command(`msda-replay run ${flags}`),
    isDrift && [make("p", "The smallest call that fails for the same cause:"), command(`msda-replay minimize ${flags} -o small.h5`)],
    make("p", "How often the test fails with other inputs:"), command(`msda-replay stress ${stressFlags}`),
    recorded && [make("p", "What was recorded:"), command(recorded)],
    quiet(`Captured with msda-replay ${shown.tool_version}, reported with ${version}.`));
}

function drawCapture(data) {
  const { verdict, invocations, relaunched, not_replayed: others, shown } = data;
  const brief = invocations.filter((invocation) => invocation.is_brief), full = invocations.filter((invocation) => !invocation.is_brief);
  const hasOthers = relaunched.length + others.length > 0;
  const linksOf = (invocation) => [
    ...(invocation.groups.length > 0 ? [["findings", "Findings"], ["elements", "Elements"]] : []),
    ...detailsOf(invocation, []).map(([name, , title]) => [name, title])].map(([name, title]) => [`i${invocation.id}-${name}`, title]);
  drawPage({
    style: STYLES[verdict.grade], brand: "msda-replay", name: baseName(data.capture), chips: gradeChips(verdict), headline: verdict.summary,
    figures: [["out of tolerance", plural(sum(Object.values(verdict.causes), (n) => n), "element")], ["at fault", data.party],
      ["invocations", count(data.invocation_count)], ["recorded on", shown.run.facts.gpu], ["written", shown.created]]
      .filter(([, text]) => text).map(([name, text]) => [name, plain(text)]) },
  [...(invocations.length === 1 ? full.flatMap(linksOf) : full.slice(0, 12).map(({ id }) => [`i${id}`, `Invocation ${id}`])),
    ...(brief.length > 0 ? [["brief", "In brief"]] : []), ...(hasOthers ? [["others", "Others"]] : []),
    ["program", "Program"], ["reproduce", "Reproduce"]],
  full.map((invocation) => drawInvocation(invocation, data)), brief.length > 0 && drawBrief(brief, data), hasOthers && drawOthers(data),
  drawProgram(shown.run), drawReproduce(data));
}
