// Charts: histograms of errors, maps of where they lie, and what `order` and `stress` measured.

// "4,096", "65.5 k", "1.07 G"
function shortNumber(x) {
  if (x < 10000) return count(Math.trunc(x));
  const units = ["", " k", " M", " G", " T", " P"];
  let unit = 0;
  for (; x >= 1000 && unit + 1 < units.length; ++unit) x /= 1000;
  return general(x, 3) + units[unit];
}

const bar = (style, x, bottom, width, height) =>
  path(style, `M${place(x)} ${place(bottom)}h${place(width)}v-${place(height)}h-${place(width)}z`);

// How far the recorded numbers are from the expected ones, in ULP: bins of 0, 1, 2 to 3, 4 to 7, ..., each [within the
// tolerance, out of it]; counts on a logarithmic scale.
function drawHistogram({ tensor, against, bins, not_finite: notFinite, tightest }) {
  const all = [...bins, notFinite], total = sum(all, ([within, outside]) => within + outside);
  const isInfinite = notFinite[0] + notFinite[1] > 0, most = Math.max(1, ...bins.map(([within, outside]) => within + outside));
  const limit = tightest == null ? null : Number(tightest);
  const places = Math.max(8, bins.length, limit == null ? 0 : Math.trunc(Math.log2(limit + 1)) + 2);
  const left = 52, top = 26, height = 150, bottom = top + height, step = clamp(520 / (places + 1), 9, 30), width = 0.78 * step;
  const x = (bin) => left + 6 + bin * step, right = x(places + (isInfinite ? 2 : 0)) + 4;
  const heightOf = (n) => (n > 0 ? (height * (Math.log10(n) + 0.3)) / (Math.log10(most) + 0.3) : 0);
  const firstOf = (bin) => (bin === 0 ? 0 : 2 ** (bin - 1));
  const drawBin = (at, [within, outside], distances) => {
    if (within + outside === 0) return null;
    const whole = heightOf(within + outside), bad = within === 0 ? whole : Math.min(heightOf(outside), 0.5 * whole);
    return make("g", make("title", `${distances} ULP: ${count(within)} within tolerance, ${count(outside)} out of it`),
      bar("within", x(at), bottom, width, whole - bad), outside > 0 && bar("beyond", x(at), bottom - whole + bad, width, bad));
  };
  const shapes = [];
  for (let n = 1; n <= most; n *= 10) {
    const y = bottom - heightOf(n);
    shapes.push(path("grid", `M${left} ${place(y)}H${place(right)}`), label(left - 6, y + 4, "end", shortNumber(n)));
  }
  shapes.push(path("axis", `M${left} ${bottom}H${place(right)}`));
  let every = 2;  // bins from one label to the next, so far apart that the labels of narrow screens have room
  while (step * every < 56) every *= 2;
  for (let i = 0; i < places; ++i) {
    const first = firstOf(i), last = i === 0 ? 0 : 2 * first - 1;
    const distances = first === last ? shortNumber(first) : `${shortNumber(first)} to ${shortNumber(last)}`;
    if (i < bins.length) shapes.push(drawBin(i, bins[i], distances));
    if (i < 2 || (i - 1) % every === 0) shapes.push(label(x(i) + width / 2, bottom + 16, "middle", shortNumber(first)));
  }
  if (isInfinite)
    shapes.push(drawBin(places + 1, notFinite, "not finite,"), label(x(places + 1) + width / 2, bottom + 16, "middle", "NaN, ∞"));
  shapes.push(label((left + right) / 2, bottom + 38, "middle", "units in the last place apart"));
  if (limit != null) {
    const at = x(0) + (limit < 1 ? 0.5 : Math.log2(limit) + 1) * step, isRight = at > (left + right) / 2;
    shapes.push(path("limit", `M${place(at)} ${top - 8}V${bottom}`),
      label(at + (isRight ? -5 : 5), top - 10, isRight ? "end" : "start", `tolerance from ${shortNumber(limit)} ULP`));
  }
  return make("figure.chart", drawing(right + 10, 222, "Histogram of errors in units in the last place", shapes),
    make("figcaption", make("strong", `${tensor} from ${against}`),
      `: ${count(sum(all, (bin) => bin[1]))} of ${count(total)} elements out of tolerance.`));
}

const SHADES = 8;

// "row 12, column 40 to 43"
function placeOfBin(map, bin) {
  const part = (name, at, all, share) => {
    const first = at * share, last = Math.min(all, first + share) - 1;
    return name && (first === last ? `${name} ${first}` : `${name} ${first} to ${last}`);
  };
  return list([part(map.row_name, Math.floor(bin / map.columns), map.all_rows, map.of_rows),
    part(map.column_name, bin % map.columns, map.all_columns, map.of_columns)]);
}

// The largest difference in each bin, in a logarithmic scale from the least that is not zero to the largest. Bins with
// elements out of tolerance have the last shade and do not stretch it, or all others would have the first. Wide maps
// stretch to the width there is; the others show each bin as a square.
function drawMap(map, isWide) {
  const { largest, rows, columns } = map, outside = new Set(map.outside);
  const values = largest.filter((x, i) => x > 0 && !outside.has(i)), least = Math.min(...values), most = Math.max(0, ...values);
  const figure = make(isWide ? "figure.map.wide" : "figure.map", make("p.map-title", (isWide ? "by " : "") + map.title));
  if (largest.every((x) => x === 0)) {
    figure.append(quiet("no difference"));
    return figure;
  }
  const shadeOf = (bin) => {
    const x = largest[bin];
    if (outside.has(bin)) return SHADES;
    if (x === 0) return 0;
    if (!isNumber(x) || least >= most) return SHADES;
    return 1 + clamp(Math.trunc((Math.log(x / least) / Math.log(most / least)) * SHADES), 0, SHADES - 1);
  };
  // Runs of bins of one shade, as horizontal strokes of one bin's width.
  const strokes = Array(SHADES + 1).fill("");
  for (let row = 0; row < rows; ++row) {
    for (let column = 0, end; column < columns; column = end) {
      const shade = shadeOf(row * columns + column);
      for (end = column + 1; end < columns && shadeOf(row * columns + end) === shade;) ++end;
      strokes[shade] += `M${column} ${row}h${end - column}`;
    }
  }
  const marks = map.outside.map((bin) => `M${bin % columns}.5 ${Math.floor(bin / columns)}h0`).join("");
  const bin = clamp(Math.floor(208 / Math.max(rows, columns)), 3, 40);
  figure.append(
    make("svg.heat", { viewBox: `0 -.5 ${columns} ${rows}`, width: isWide ? "100%" : place(bin * columns),
      height: place(isWide ? clamp(rows * 14, 20, 224) : bin * rows), preserveAspectRatio: isWide ? "none" : "xMidYMid", role: "img" },
    make("title", `Largest differences of ${map.title}`),
    strokes.map((d, shade) => shade > 0 && d && path(`q${shade}`, d)), marks && [path("marks-under", marks), path("marks", marks)]),
    make("figcaption",
      most > 0 && make("span.scale", make("span", general(least, 2)),
        make("svg.ramp", { viewBox: "0 0 8 1", preserveAspectRatio: "none", "aria-hidden": "true" },
          Array.from({ length: SHADES }, (_, i) => path(`q${i + 1}`, `M${i} .5h1`))),
        make("span", general(most, 2))),
      map.worst != null && `largest ${general(map.worst_difference, 3)} at ${placeOfBin(map, map.worst)}`,
      largest.some((x) => !isNumber(x)) && (map.worst != null ? "; also NaN or infinite" : "NaN or infinite"),
      largest.some((x) => x === 0) && "; no difference where there is no colour"));
  return figure;
}

// The share of inverted pairs by distance; `bins` of docs/order.schema.json.
function drawSchedule(bins, index) {
  const shown = bins.filter(({ pairs }) => pairs > 0), step = 22, left = 110, width = 330;
  if (shown.length === 0) return null;
  return make("figure.chart",
    drawing(left + width + 70, step * shown.length + 8, "Share of inverted pairs", shown.map(({ nearest, farthest, share }, i) => {
      const y = 4 + i * step;
      return [label(left - 8, y + 14, "end", `${nearest} to ${farthest}`), bar("within", left, y + step - 3, share * width, step - 6),
        path("axis", `M${left} ${y}v${step}`), label(left + share * width + 6, y + 14, "start", share.toFixed(3))];
    })),
    make("figcaption", `The share of pairs of additions that came in the order opposite to that of their ${index} numbers, by the distance ` +
      "between the numbers."));
}

// The failure probability by a tolerance, `name`; `points` of docs/stress.schema.json.
function drawCurve(points, name, own) {
  const drawn = points.filter((point) => point[name] > 0).sort((a, b) => a[name] - b[name]);
  if (drawn.length < 2) return null;
  const left = 56, top = 24, right = 500, bottom = 190, most = Math.max(0.01, ...drawn.map(({ high }) => high));
  const lowest = drawn[0][name], highest = drawn.at(-1)[name], first = Math.log10(lowest), last = Math.log10(highest);
  const x = (tolerance) => left + 14 + ((Math.log10(tolerance) - first) / (last - first)) * (right - left - 28);
  const y = (probability) => bottom - (probability / most) * (bottom - top);
  const shapes = [];
  for (let i = 0; i <= 4; ++i) {
    const p = (most * i) / 4;
    shapes.push(path(i === 0 ? "axis" : "grid", `M${left} ${place(y(p))}H${right}`),
      label(left - 6, y(p) + 4, "end", `${general(100 * p, 3)} %`));
  }
  for (let power = Math.ceil(first); power <= last; ++power) shapes.push(label(x(10 ** power), bottom + 18, "middle", `1e${power}`));
  shapes.push(label((left + right) / 2, bottom + 40, "middle", name));
  for (const point of drawn) {
    const at = x(point[name]), low = place(y(point.low)), high = place(y(point.high)), from = place(at - 4);
    shapes.push(path("interval", `M${place(at)} ${low}V${high}M${from} ${low}h8M${from} ${high}h8`));
  }
  shapes.push(path("curve", drawn.map((point, i) => `${i === 0 ? "M" : "L"}${place(x(point[name]))} ${place(y(point.estimate))}`).join("")));
  for (const point of drawn) {
    const isOwn = point[name] === own;
    shapes.push(disc(isOwn ? "observed.own" : "observed", x(point[name]), y(point.estimate), isOwn ? 6 : 4));
  }
  if (own > 0 && own >= lowest && own <= highest)
    shapes.push(path("limit", `M${place(x(own))} ${top - 6}V${bottom}`), label(x(own) + 6, top - 8, "start", `the test's, ${general(own, 6)}`));
  return make("figure.chart", drawing(right + 12, 236, `Failure probability by ${name}`, shapes),
    make("figcaption", `How often the test fails with another ${name}; bars are confidence intervals.`));
}
