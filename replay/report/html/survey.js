// The page of a survey (docs/survey.schema.json): the kernels that vary, with the evidence, then all.

const verdictStyle = (verdict) => (["race", "reads_unwritten"].includes(verdict) ? "error" : verdict === "deterministic" ? "good" : "warning");
const isUnwritten = ({ verdict }) => verdict === "reads_unwritten";
const mayDiffer = (kernel) => kernel.varied > 0 || isUnwritten(kernel);
const hasCard = (kernel) => mayDiffer(kernel) || kernel.varied_beside > 0;

function twinText({ replaced, refused, left, equal, trials }) {
  if (replaced === 0) return "none: no floating-point addition of its code can be replaced";
  if (refused) return "the driver refused it";
  return `${replaced} additions as integers, ${left} left as they were: equal results in ${equal} of ${trials} launches tried`;
}

// "RED at a.cu:12, through b.cuh:7 (2)", the innermost function last in `lines`
function placeText({ instruction, lines, count: n }) {
  const [last, ...callers] = lines.map(({ file, line }) => `${file}:${line}`).reverse();
  return `${instruction} at ${list([last, callers.length > 0 && `through ${callers.join(", ")}`])} (${n})`;
}

function placesText(places) {
  const most = 12;
  return list([...places.slice(0, most).map(placeText), places.length > most && `and ${places.length - most} others (--json)`], "; ");
}

const size = (number) => (number == null ? "not known" : general(number, 3));

const measured = (e) => [
  ["additions", `${count(e.additions)} of ${e.type} to ${count(e.addresses)} addresses, at most ${count(e.most_additions)} to one; ` +
    `greatest addend ${size(e.greatest_addend)}`],
  ["order can change", `${size(e.bound)} where results differed most, by ${size(e.difference)} in ${e.launches} more launches; ` +
    `at most ${size(e.share)} of a bound`],
  ["not explained", `${count(e.exceeding)} of ${count(e.differing)} numbers that differed, by more than their bounds; ` +
    `${count(e.unbounded)} without a bound; ${count(e.elsewhere)} words where no addition was counted; ` +
    `${count(e.other_words)} that depend on sums otherwise`]];

const varying = (kernel) => [
  ["first", `the program's launch ${count(kernel.first_varied)}`],
  ["differed", `at most ${count(kernel.most_words)} words of 32 bits, in ${kernel.extra_that_differ} of ${kernel.extra_launches} extra launches, ` +
    `${kernel.beside_that_differ} of ${kernel.extra_beside} beside other work`],
  ["order-free twin", kernel.twin && twinText(kernel.twin)], ...(kernel.evidence ? measured(kernel.evidence) : []),
  ["additions not measured", kernel.evidence_missing], ["additions in the source", placesText(kernel.source_lines.additions)],
  ["communication in the source", placesText(kernel.source_lines.communication)],
  ["what to type", kernel.remedy ? `${kernel.remedy.type} (${kernel.remedy.note}; ${kernel.remedy.source})` : "nothing is known"]];

// A kernel whose results may differ: who launched it, why, on what evidence, and what to type.
function drawVarying(kernel) {
  const style = verdictStyle(kernel.verdict), launches = isUnwritten(kernel) ? kernel.poison.depend : kernel.varied + kernel.varied_beside;
  return make(`article.group.${style}`,
    chips(chip(style, kernel.verdict), chip("plain", `${count(launches)} of ${count(kernel.surveyed)} launches`)),
    make("h4.wrap.mono", kernel.kernel),
    described("described", [["why", kernel.why], ["launched by", list([kernel.node, kernel.operation, kernel.python])],
      ...(kernel.varied + kernel.varied_beside > 0 ? varying(kernel)
        : [["what to do", "write this memory first, as torch.zeros does and torch.empty does not"]])]));
}

const drawKernels = (kernels) => table(["kernel", "verdict", "varied", make("th", { scope: "col" }, "share"), "surveyed", "launches", "ms"], 2,
  [...kernels].sort((a, b) => b.microseconds - a.microseconds).map((kernel) => [{ class: mayDiffer(kernel) && "bad" },
    make("td.wrap.mono", kernel.kernel), kernel.verdict, count(kernel.varied),
    make("td", make("progress", { max: "1", value: (kernel.surveyed > 0 ? kernel.varied / kernel.surveyed : 0).toFixed(3) })),
    count(kernel.surveyed), count(kernel.launches), (1e-3 * kernel.microseconds).toFixed(1)]));

function drawSurvey({ survey: { capture, kernels, launches, surveyed }, grade, headline, word, version }) {
  const verdicts = {}, reasons = {};
  for (const { verdict, not_surveyed: left } of kernels) {
    verdicts[verdict] = (verdicts[verdict] ?? 0) + 1;
    for (const [reason, n] of Object.entries(left)) reasons[reason] = (reasons[reason] ?? 0) + n;
  }
  const sorted = (object) => Object.entries(object).sort(([a], [b]) => (a < b ? -1 : 1));
  const cards = kernels.filter(hasCard);
  drawPage({
    style: STYLES[grade], brand: "msda-replay survey", name: baseName(capture), headline,
    chips: sorted(verdicts).map(([verdict, n]) => chip(verdictStyle(verdict), `${verdict} ${count(n)}`)),
    figures: [["launches", count(launches)], ["surveyed", count(surveyed)], ["kernels", count(kernels.length)],
      ["the survey took", `${(1e-6 * sum(kernels, ({ microseconds }) => microseconds)).toFixed(1)} s`]] },
  [["varying", "What varies"], ["kernels", "All kernels"], ["unsurveyed", "Not surveyed"]],
  section("varying", "What varies", cards.length > 0 ? cards.map(drawVarying) : make("p.note.good", "Nothing.")),
  section("kernels", "All kernels, by the time that surveying them took", drawKernels(kernels)),
  section("unsurveyed", "Not surveyed", sorted(reasons).map(([reason, n]) => note(`${count(n)} launches: ${reason}`)),
    Object.keys(reasons).length === 0 && make("p.note.good", "All launches were surveyed.")),
  make("p", "The survey again:"), command(`msda-replay survey ${word}`),
  kernels.some(({ kept }) => kept > 0) && [make("p", "Launches that were kept:"), command(`msda-replay run ${word} --mode original`)],
  quiet(`Reported with msda-replay ${version}.`));
}
