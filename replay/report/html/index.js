// The page over many captures: what they have in common (docs/run-many.schema.json), which kernel varies in which of their
// surveys (docs/survey-many.schema.json), and a link to the page of each.

const captureName = (name, page) => (page ? make("a.mono", { href: page }, name) : make("span.mono", name));

function drawCaptureRow(capture, page) {
  const judged = capture.error ? null : capture.survey ?? capture.verdict;
  const [style, word] = !judged ? ["error", "Not read"]
    : capture.survey ? [STYLES[judged.grade], judged.varying > 0 ? "Varies" : "Steady"] : gradeOf(judged);
  const origin = list([capture.rank && `rank ${capture.rank}`, capture.labels && plain(capture.labels)]);
  return make("tr", make("td", captureName(capture.capture, page), origin && make("div.quiet", origin)), make("td", chip(style, word)),
    make("td.wrap", judged ? judged.summary : capture.error));
}

function drawJoinedGroup(group, pageOf) {
  const { worst, captures } = group;
  return make(`article.group.${group.grade}`,
    chips(chip(group.grade, group.grade), chip("cause", group.cause), chip("plain", plural(captures.length, "capture"))),
    make("h4", capitalized(group.title)),
    described("described", [
      ["worst", [make("code", elementName({ tensor: group.tensor, index: worst.index })), `, invocation ${worst.invocation} of `,
        captureName(worst.capture, pageOf[worst.capture])]],
      ["values", `recorded ${general(worst.observed, 9)}, ${worst.against} ${general(worst.expected, 9)}`],
      ["why", worst.why], ["what to do", [group.help, group.type && command(group.type)]]]),
    make("details.evidence", make("summary", "The captures"), make("ul", captures.map(({ capture, count: n }) =>
      make("li", captureName(capture, pageOf[capture]), `: ${plural(n, "element")}`)))));
}

function drawJoinedSurveys({ kernels }, pageOf) {
  const differing = kernels.filter(mayDiffer);
  if (differing.length === 0) return make("p.note.good", "No kernel varies in any survey.");
  const share = ({ varied, depend, surveyed }) => `${count(varied > 0 ? varied : depend)} of ${count(surveyed)}`;
  const inCapture = (part) => make("div", captureName(part.capture, pageOf[part.capture]), `: ${share(part)}`);
  return table(["kernel", "code", "verdict", "launches", make("th", { scope: "col" }, "in")], 3, differing.map((kernel) => {
    const steady = kernel.captures.filter((part) => !mayDiffer(part)).length;
    return [{ class: "bad" }, make("td.wrap.mono", kernel.kernel), make("td.mono", kernel.kernel_digest.slice(0, 17)), kernel.verdict,
      share(kernel),
      make("td", kernel.captures.filter(mayDiffer).map(inCapture),
        steady > 0 && make("div.quiet", `not in ${plural(steady, "other")}`))];
  }));
}

function drawIndex({ joined: { captures, verdict, groups }, surveys, pages, version }) {
  const pageOf = Object.fromEntries(captures.map(({ capture }, i) => [capture, pages[i]]));
  const hasSurveys = captures.some(({ survey }) => survey), hasOthers = captures.some(({ survey }) => !survey);
  const rows = captures.map((capture, i) => [capture, pages[i]]).sort(([a], [b]) => (a.status === 0) - (b.status === 0));
  drawPage(
    { style: STYLES[verdict.grade], brand: "msda-replay", name: `${captures.length} captures`, chips: gradeChips(verdict),
      headline: verdict.summary },
    [...(hasSurveys ? [["surveys", "What varies"]] : []), ...(hasOthers ? [["findings", "Findings"]] : []), ["captures", "Captures"]],
    hasSurveys && section("surveys", "What varies", drawJoinedSurveys(surveys, pageOf)),
    hasOthers && section("findings", "Findings", verdict.grade === "good" ? make("p.note.good", "Nothing is out of tolerance.")
      : groups.length === 0 && note("Nothing was found out of tolerance in what could be read and compared."),
    groups.map((group) => drawJoinedGroup(group, pageOf))),
    section("captures", "Captures", scrolled(make("table.captures", rows.map(([capture, page]) => drawCaptureRow(capture, page))))),
    quiet(`Reported with msda-replay ${version}.`));
}
