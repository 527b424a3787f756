// Drawings of a finding: the cells of its sample, how the gradient jumps between them, and the samples of its pixel.

const AXES = ["x", "y", "z"];
const clamp = (x, low, high) => Math.min(Math.max(x, low), high);
const place = (x) => String(Number(x.toFixed(3)) + 0);  // + 0: never -0
const path = (style, d) => make(`path.${style}`, { d });
const line = (style, x1, y1, x2, y2) => path(style, `M${place(x1)} ${place(y1)}L${place(x2)} ${place(y2)}`);
const label = (x, y, anchor, text) => make("text", { x: place(x), y: place(y), "text-anchor": anchor }, text);
const box = (style, x, y, width, height) =>
  make(`rect.${style}`, { x: place(x), y: place(y), width: place(width), height: place(height) });
const disc = (style, x, y, r) => make(`circle.${style}`, { cx: place(x), cy: place(y), r: place(r) });
const drawing = (width, height, title, ...shapes) =>
  make("svg.drawing", { viewBox: `0 0 ${place(width)} ${place(height)}`, width: place(width), height: place(height), role: "img" },
    make("title", title), shapes);
const key = (against, text) =>
  make("figcaption", make("span.key.observed-key", "recorded"), make("span.key.expected-key", against), text);

// The recorded side is a disc, the other one a diamond around it.
const markObserved = (x, y) => disc("observed", x, y, 5);
const markExpected = (x, y) => path("expected", `M${place(x)} ${place(y - 10)}l10 10l-10 10l-10 -10z`);

// Both sides of a finding that landed differently; nothing for other findings.
function crossingOf({ evidence }) {
  const { boundary, sides, exact_coordinate: exact, distance_to_boundary: distance, distance_in_ulp: ulps } = evidence;
  if (!isNumber(boundary) || sides?.length !== 2 || !sides.every((side) => isNumber(side.gradient_there))) return null;
  const near = Math.fround(Math.max(Math.abs(boundary), 2 ** -10));
  const ulp = ulps > 0 && Math.abs(distance) > 0 ? Math.abs(distance) / ulps : 2 ** (Math.floor(Math.log2(near)) - 23);
  const [observed, expected] = sides;
  const areDifferent = observed.cell !== expected.cell;
  // A side that was clipped lies outside: before the first border, behind the last.
  const observedFirst = areDifferent ? observed.cell < expected.cell : observed.clipped === (boundary <= 0);
  const distanceOf = (side) => {
    if (isNumber(side.coordinate)) return (side.coordinate - boundary) / ulp;
    return observedFirst === (side === observed) ? -1 : 1;  // the evidence has the cell alone
  };
  return { axis: AXES.indexOf(evidence.axis), boundary, exact, ulp, observed, expected, areDifferent, observedFirst, distanceOf };
}

// The part of the pixel grid that is drawn, around a place: its middle.
const UNIT = 76, LEFT = 44, TOP = 34, SPAN = 3.3, SIDE = SPAN * UNIT;
function gridAround(middleX, middleY, columns, rows, across, down) {
  const x0 = middleX - SPAN / 2, y0 = middleY - SPAN / 2, right = LEFT + SIDE, bottom = TOP + SIDE;
  const x = (at) => LEFT + (at - x0) * UNIT, y = (at) => TOP + (at - y0) * UNIT;
  const numbersFrom = (first) => Array.from({ length: Math.floor(first + SPAN) - Math.ceil(first) + 1 }, (_, i) => Math.ceil(first) + i + 0);
  const xs = numbersFrom(x0), ys = numbersFrom(y0);
  // There are no pixels beyond half a pixel from the outermost centres.
  const l = clamp(x(-0.5), LEFT, right), r = clamp(x(columns - 0.5), LEFT, right);
  const t = clamp(y(-0.5), TOP, bottom), b = clamp(y(rows - 0.5), TOP, bottom);
  const outside = [
    l > LEFT && box("outside", LEFT, TOP, l - LEFT, SIDE), r < right && box("outside", r, TOP, right - r, SIDE),
    t > TOP && r > l && box("outside", l, TOP, r - l, t - TOP), b < bottom && r > l && box("outside", l, b, r - l, bottom - b)];
  // Lines through the pixels' centres, which are the boundaries of the cells, with their numbers.
  const grid = [
    xs.map((at) => [line("grid", x(at), TOP, x(at), bottom), label(x(at), TOP - 8, "middle", place(at))]),
    ys.map((at) => [line("grid", LEFT, y(at), right, y(at)), label(LEFT - 8, y(at) + 4, "end", place(at))]),
    label(right, TOP - 22, "end", `${across} →`), label(LEFT - 8, TOP - 8, "end", `${down} ↓`),
    ys.map((row) => xs.map((column) =>
      column >= 0 && row >= 0 && column < columns && row < rows && disc("centre", x(column), y(row), 2.5)))];
  const draw = (title, beneath, above) => drawing(LEFT + SIDE + 8, TOP + SIDE + 8, title, outside, beneath, grid, above);
  return { x, y, draw };
}

// The pixel grid around the sample, the cell and the coordinate of each side. Nothing where coordinates are not finite, or
// so large that neighbouring pixels have no room in a label, or where there are fewer than two axes.
function drawCells(finding) {
  const { axes } = finding;
  if (axes.length < 2 || !axes.every(({ observed, expected }) => Math.abs(observed) < 1e7 && Math.abs(expected) < 1e7)) return null;
  const crossing = crossingOf(finding);
  const across = crossing?.axis === 2 ? 2 : 0, down = 1;
  // The cell of a side along an axis; where the sides landed differently, that of the evidence.
  const cell = (axis, side) => (crossing?.axis === axis && crossing.areDifferent ? crossing[side].cell : Math.floor(axes[axis][side]));
  const middle = (axis) => (cell(axis, "observed") + cell(axis, "expected") + 1) / 2;
  const grid = gridAround(middle(across), middle(down), axes[across].size, axes[down].size, AXES[across], AXES[down]);
  const { x, y } = grid;
  return make("figure",
    grid.draw("The sample in the pixel grid",
      [box("cell.observed-cell", x(cell(across, "observed")), y(cell(down, "observed")), UNIT, UNIT),
        box("cell.expected-cell", x(cell(across, "expected")) + 3, y(cell(down, "expected")) + 3, UNIT - 6, UNIT - 6)],
      [markExpected(x(axes[across].expected), y(axes[down].expected)), markObserved(x(axes[across].observed), y(axes[down].observed))]),
    key(finding.against, ": the sample, and the cell each side reads. Lines run through the pixels' centres; no pixels where it is hatched."));
}

// The gradient along the axis on which the sides landed differently: across, the distance from the boundary in ULP.
function drawJump(finding) {
  const crossing = crossingOf(finding);
  if (!crossing) return null;
  const { observed, expected, boundary, exact, ulp, observedFirst, distanceOf } = crossing;
  const left = 16, right = 424, top = 46, bottom = 172, axis = AXES[crossing.axis];
  const distances = [distanceOf(observed), distanceOf(expected), (exact - boundary) / ulp].map(Math.abs);
  const reach = 1.5 * Math.max(2, ...distances.filter(Number.isFinite));
  const low = Math.min(observed.gradient_there, expected.gradient_there), high = Math.max(observed.gradient_there, expected.gradient_there);
  const x = (ulps) => left + ((clamp(ulps, -reach, reach) + reach) / (2 * reach)) * (right - left);
  const y = (gradient) => (high > low ? bottom - ((gradient - low) / (high - low)) * (bottom - top) : (top + bottom) / 2);
  const branch = (side, isFirst, style) => {
    const at = y(side.gradient_there), from = isFirst ? left : x(0), to = isFirst ? x(0) : right;
    return [line(`branch.${style}`, from, at, to, at),
      label(isFirst ? left : right, at - 12, isFirst ? "start" : "end", general(side.gradient_there, 7))];
  };
  // Where rounding may put a side's coordinate.
  const reachOf = (side, at, style) => {
    const middle = (exact - boundary) / ulp, error = side.coordinate_error_bound / ulp;
    if (!Number.isFinite(middle) || !Number.isFinite(error)) return null;
    const from = place(x(middle - error)), to = place(x(middle + error));
    return path(`reach.${style}`, `M${from} ${at - 4}v8M${from} ${at}H${to}M${to} ${at - 4}v8`);
  };
  const ticks = [], step = Math.max(1, 10 ** Math.floor(Math.log10(reach)));
  for (let tick = -Math.floor(reach / step) * step; tick <= reach; tick += step) {
    ticks.push(line("axis", x(tick), 236, x(tick), 241), label(x(tick), 255, "middle", (tick > 0 ? "+" : "") + general(tick + 0, 6)));
  }
  return make("figure",
    drawing(440, 285, "The gradient on both sides of the boundary",
      line("boundary", x(0), 22, x(0), 226),
      label(x(0), 14, "middle", `${crossing.areDifferent ? "boundary" : "border"} ${axis} = ${general(boundary, 9)}`),
      branch(observed, observedFirst, "observed-line"), branch(expected, !observedFirst, "expected-line"),
      markExpected(x(distanceOf(expected)), y(expected.gradient_there)), markObserved(x(distanceOf(observed)), y(observed.gradient_there)),
      reachOf(observed, 200, "observed-line"), reachOf(expected, 216, "expected-line"),
      line("axis", left, 236, right, 236), ticks,
      label(x(0), 276, "middle", `${axis} from ${general(boundary, 9)}, in units in the last place of ${general(ulp, 2)}`)),
    key(expected.side, ": the gradient at each side's coordinate. Below: where rounding may put that coordinate."));
}

// The samples that add to a pixel, each with its addend.
function drawPixel({ row, column, rows, columns, addends, left_out: leftOut }) {
  const grid = gridAround(column, row, columns, rows, "x", "y");
  const { x, y } = grid;
  const largest = Math.max(0, ...addends.map(([, , value]) => Math.abs(value)).filter(Number.isFinite));
  const isNear = ([atX, atY]) => Math.abs(atX - column) <= SPAN / 2 && Math.abs(atY - row) <= SPAN / 2;
  const discs = addends.filter(isNear).map(([atX, atY, value]) => {
    const share = isNumber(value) && largest > 0 ? Math.abs(value) / largest : 1;
    return disc(value < 0 || value === "-Infinity" ? "addend.less" : "addend", x(atX), y(atY), 1.5 + 9 * Math.sqrt(share));
  });
  return make("figure",
    grid.draw("The samples that add to the pixel", box("cell.observed-cell", x(column - 0.5), y(row - 0.5), UNIT, UNIT), discs),
    make("figcaption", leftOut > 0 && "The first ",
      `${plural(addends.length, "sample")} add${addends.length === 1 ? "s" : ""} to this pixel, the square in the middle. ` +
      "Area: how much each adds; filled: positive, hollow: negative."));
}
