// The page over nights: how often each test failed for each finding, from the files that --tally wrote.

const dayOf = ({ recorded }) => recorded.slice(0, 10);
const percentText = (share) => `${general(100 * share, 3)} %`;
const gpusOf = ({ gpus }) => list(gpus) || "no GPU";
const settingOf = (night) => `msda-replay ${night.version}, ${gpusOf(night)}`;

// A bar for each night, as high as its rate; its line is the 95 % interval. Dashed lines: another version or GPU.
function drawRates({ title, command, rates }, nights) {
  const left = 44, top = 18, height = 90, bottom = top + height, step = clamp(520 / nights.length, 4, 34), width = 0.7 * step;
  const x = (i) => left + 4 + i * step, y = (share) => bottom - height * share, right = x(nights.length) + 4;
  const change = (night, i) => i > 0 && settingOf(night) !== settingOf(nights[i - 1]) &&
    make("g", make("title", `from here on ${settingOf(night)}`), line("limit", x(i) - 2, top - 6, x(i) - 2, bottom));
  const drawNight = (rate, i) => {
    const middle = x(i) + width / 2;
    if (rate == null) return null;
    const { failures, trials, estimate, low, high } = rate;
    return make("g",
      make("title", `${nights[i].recorded}: ${count(failures)} of ${count(trials)}, ${percentText(estimate)} (${percentText(low)} to ${
        percentText(high)}); ${settingOf(nights[i])}`),
      box("night", x(i), top, width, height), bar("beyond", x(i), bottom, width, height * estimate), line("interval", middle, y(low), middle, y(high)));
  };
  const shares = [0, 0.5, 1].map((share) =>
    [path("grid", `M${left} ${place(y(share))}H${place(right)}`), label(left - 6, y(share) + 4, "end", `${100 * share} %`)]);
  const last = nights.length - 1;
  return drawing(Math.max(right, left + 150) + 8, bottom + 24, `Rate of ${title} by night, ${command}`, shares, rates.map(drawNight), nights.map(change),
    label(left, bottom + 17, "start", dayOf(nights[0])), last * step > 150 && label(right, bottom + 17, "end", dayOf(nights[last])));
}

function drawTrendRow(row, nights) {
  const { finding, title, command, all, rates } = row, ran = rates.filter(Boolean), latest = ran[ran.length - 1];
  return make("article.group.drift",
    chips(chip("cause", finding.cause), finding.at_fault && chip("plain", `at fault: ${finding.at_fault}`), chip("plain", command)),
    make("h4.wrap", finding.test),
    described("described", [
      ["finding", title], ["pattern", finding.pattern],
      ["all nights", `${count(all.failures)} of ${count(all.trials)}: ${percentText(all.estimate)} (${percentText(all.low)} to ${percentText(all.high)})`],
      ["last", `${count(latest.failures)} of ${count(latest.trials)}`]]),
    make("figure.chart", scrolled(drawRates(row, nights))));
}

function drawTrend({ headline, nights, rows, version }) {
  drawPage(
    { style: STYLES[rows.length > 0 ? "drift" : "good"], brand: "msda-replay", name: plural(nights.length, "night"), headline },
    [["rates", "Rates"], ["nights", "Nights"]],
    section("rates", "Rates", rows.length === 0 ? make("p.note.good", "No test has a finding in any night.")
      : note("A bar is the share of a test's captures, or of its simulated runs, with the finding; its line is the 95 % interval."),
    rows.map((row) => drawTrendRow(row, nights))),
    section("nights", "Nights", table(["recorded", "file", "command", "msda-replay", "GPU", "tests", "captures not read"], 5, nights.map((night) =>
      [night.recorded, night.file, night.command, night.version, gpusOf(night), count(night.tests), count(night.unread)]))),
    quiet(`Reported with msda-replay ${version}.`));
}
