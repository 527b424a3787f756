#include "replay/report/html/drawings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "replay/base/json.h"

namespace msda::replay {

using analysis::axis_name;
using analysis::Finding;

namespace {

void line(Html& html, const char* style, double x1, double y1, double x2, double y2) {
  html.empty("path", {{"class", style},
                      {"d", fmt::format("M{} {}L{} {}", coordinate_text(x1), coordinate_text(y1), coordinate_text(x2),
                                        coordinate_text(y2))}});
}

void box(Html& html, const char* style, double x, double y, double width, double height) {
  html.empty("rect", {{"class", style},
                      {"x", coordinate_text(x)},
                      {"y", coordinate_text(y)},
                      {"width", coordinate_text(width)},
                      {"height", coordinate_text(height)}});
}

// The recorded side is a disc, the other one a diamond around it.
void mark_observed(Html& html, double x, double y) {
  html.empty("circle", {{"class", "observed"}, {"cx", coordinate_text(x)}, {"cy", coordinate_text(y)}, {"r", "5"}});
}
void mark_expected(Html& html, double x, double y) {
  html.empty("path", {{"class", "expected"},
                      {"d", fmt::format("M{} {}l10 10l-10 10l-10 -10z", coordinate_text(x), coordinate_text(y - 10))}});
}

double number_of(const Json& number) { return number.is_number() ? number.get<double>() : NAN; }

// Both sides of a finding that landed differently; nothing for other findings.
struct Crossing {
  size_t axis = 0;
  double boundary = 0, exact = 0, ulp = 0;
  struct OfSide {
    std::string name;
    double coordinate = NAN, error = NAN, gradient = NAN;
    int64_t cell = 0;
    bool clipped = false;
  };
  OfSide observed, expected;

  // Returns whether the recorded side's cell lies before the boundary.
  bool observed_first() const {
    if (observed.cell != expected.cell) return observed.cell < expected.cell;
    // The clipped side lies outside: before the first border, behind the last.
    return observed.clipped == (boundary <= 0);
  }
  double distance(const OfSide& side) const {
    if (std::isfinite(side.coordinate)) return (side.coordinate - boundary) / ulp;
    return observed_first() == (&side == &observed) ? -1 : 1;  // the evidence has the cell alone
  }
};

std::optional<Crossing> crossing_of(const Finding& finding) {
  const Json& evidence = finding.evidence;
  if (!evidence.contains("boundary") || !evidence.contains("sides") || evidence["sides"].size() != 2) return {};
  Crossing crossing;
  const auto axis = evidence["axis"].get<std::string>();
  crossing.axis = axis == "x" ? 0 : axis == "y" ? 1 : 2;
  crossing.boundary = number_of(evidence["boundary"]);
  crossing.exact = number_of(evidence["exact_coordinate"]);
  const double distance = number_of(evidence["distance_to_boundary"]), ulps = number_of(evidence["distance_in_ulp"]);
  const auto near = static_cast<float>(std::max(std::abs(crossing.boundary), 0x1p-10));
  crossing.ulp =
      ulps > 0 && std::abs(distance) > 0 ? std::abs(distance) / ulps : std::nextafter(near, HUGE_VALF) - near;
  for (auto [side, side_evidence] :
       {std::pair{&crossing.observed, &evidence["sides"][0]}, {&crossing.expected, &evidence["sides"][1]}}) {
    side->name = (*side_evidence)["side"];
    if (side_evidence->contains("coordinate")) side->coordinate = number_of((*side_evidence)["coordinate"]);
    side->error = number_of((*side_evidence)["coordinate_error_bound"]);
    side->gradient = number_of((*side_evidence)["gradient_there"]);
    side->cell = (*side_evidence)["cell"];
    side->clipped = (*side_evidence)["clipped"];
  }
  const bool drawable = std::isfinite(crossing.boundary) && std::isfinite(crossing.ulp) && crossing.ulp > 0 &&
                        std::isfinite(crossing.observed.gradient) && std::isfinite(crossing.expected.gradient);
  return drawable ? std::optional(crossing) : std::nullopt;
}

// The part of the pixel grid that is drawn.
struct Frame {
  static constexpr double kUnit = 76, kLeft = 44, kTop = 34, kSpan = 3.3;
  double x0, y0;  // the coordinates at its upper left corner

  double x(double coordinate) const { return kLeft + (coordinate - x0) * kUnit; }
  double y(double coordinate) const { return kTop + (coordinate - y0) * kUnit; }
  static constexpr double kSide = kSpan * kUnit;
};

// Where there are no pixels: beyond half a pixel from the outermost centres.
void draw_outside(Html& html, const Frame& frame, int32_t columns, int32_t rows) {
  const double right = Frame::kLeft + Frame::kSide, bottom = Frame::kTop + Frame::kSide;
  const auto inside = [](double x, double from, double to) { return std::clamp(x, from, to); };
  const double l = inside(frame.x(-0.5), Frame::kLeft, right), r = inside(frame.x(columns - 0.5), Frame::kLeft, right);
  const double t = inside(frame.y(-0.5), Frame::kTop, bottom), b = inside(frame.y(rows - 0.5), Frame::kTop, bottom);
  if (l > Frame::kLeft) box(html, "outside", Frame::kLeft, Frame::kTop, l - Frame::kLeft, Frame::kSide);
  if (r < right) box(html, "outside", r, Frame::kTop, right - r, Frame::kSide);
  if (t > Frame::kTop && r > l) box(html, "outside", l, Frame::kTop, r - l, t - Frame::kTop);
  if (b < bottom && r > l) box(html, "outside", l, b, r - l, bottom - b);
}

// Lines through the pixels' centres, which are the boundaries of the cells, with their numbers.
void draw_grid(Html& html, const Frame& frame, char across, char down) {
  const double right = Frame::kLeft + Frame::kSide, bottom = Frame::kTop + Frame::kSide;
  const double last = Frame::kSpan;
  for (double i = std::ceil(frame.x0); i <= frame.x0 + last; ++i) {
    line(html, "grid", frame.x(i), Frame::kTop, frame.x(i), bottom);
    // + 0.0: no pixel is called -0
    add_label(html, frame.x(i), Frame::kTop - 8, "middle", fmt::format("{:.0f}", i + 0.0));
  }
  for (double i = std::ceil(frame.y0); i <= frame.y0 + last; ++i) {
    line(html, "grid", Frame::kLeft, frame.y(i), right, frame.y(i));
    add_label(html, Frame::kLeft - 8, frame.y(i) + 4, "end", fmt::format("{:.0f}", i + 0.0));
  }
  add_label(html, right, Frame::kTop - 22, "end", fmt::format("{} →", across));
  add_label(html, Frame::kLeft - 8, Frame::kTop - 8, "end", fmt::format("{} ↓", down));
}

void draw_centres(Html& html, const Frame& frame, int32_t columns, int32_t rows) {
  for (double y = std::ceil(frame.y0); y <= frame.y0 + Frame::kSpan; ++y) {
    for (double x = std::ceil(frame.x0); x <= frame.x0 + Frame::kSpan; ++x) {
      if (x < 0 || y < 0 || x >= columns || y >= rows) continue;
      html.empty("circle", {{"class", "centre"},
                            {"cx", coordinate_text(frame.x(x))},
                            {"cy", coordinate_text(frame.y(y))},
                            {"r", "2.5"}});
    }
  }
}

Html::Element drawing(Html& html, double width, double height, const std::string& title) {
  auto svg = html.in("svg", {{"class", "drawing"},
                             {"viewBox", fmt::format("0 0 {} {}", coordinate_text(width), coordinate_text(height))},
                             {"width", coordinate_text(width)},
                             {"height", coordinate_text(height)},
                             {"role", "img"}});
  html.add("title", title);
  return svg;
}

bool is_drawable(const SampleView& view) {
  constexpr double kMost = 1e7;  // beyond, neighbouring pixels have no room in a label
  return view.axes.size() >= 2 && std::ranges::all_of(view.axes, [](const SampleView::Axis& axis) {
           return std::abs(axis.observed) < kMost && std::abs(axis.expected) < kMost;
         });
}

void draw_key(Html& html, const std::string& against, const char* what) {
  const auto caption = html.in("figcaption");
  html.add("span", {{"class", "key observed-key"}}, "recorded");
  html.add("span", {{"class", "key expected-key"}}, against);
  html.text(what);
}

}  // namespace

void draw_cells(Html& html, const Finding& finding, const SampleView& view) {
  if (!is_drawable(view)) return;
  const auto crossing = crossing_of(finding);
  const size_t across = crossing && crossing->axis == 2 ? 2 : 0, down = 1;
  const auto &x = view.axes[across], &y = view.axes[down];
  // Returns the cell of each side along each axis; where the sides landed differently, that of the evidence.
  const auto cell = [&](size_t axis, bool observed) {
    if (crossing && axis == crossing->axis && crossing->observed.cell != crossing->expected.cell) {
      return static_cast<double>(observed ? crossing->observed.cell : crossing->expected.cell);
    }
    return std::floor(observed ? view.axes[axis].observed : view.axes[axis].expected);
  };
  const auto middle = [&](size_t axis) { return (cell(axis, true) + cell(axis, false) + 1) / 2; };
  const Frame frame{middle(across) - Frame::kSpan / 2, middle(down) - Frame::kSpan / 2};
  const auto figure = html.in("figure");
  {
    const auto svg =
        drawing(html, Frame::kLeft + Frame::kSide + 8, Frame::kTop + Frame::kSide + 8, "The sample in the pixel grid");
    draw_outside(html, frame, x.size, y.size);
    box(html, "cell observed-cell", frame.x(cell(across, true)), frame.y(cell(down, true)), Frame::kUnit, Frame::kUnit);
    box(html, "cell expected-cell", frame.x(cell(across, false)) + 3, frame.y(cell(down, false)) + 3, Frame::kUnit - 6,
        Frame::kUnit - 6);
    draw_grid(html, frame, axis_name(across), axis_name(down));
    draw_centres(html, frame, x.size, y.size);
    mark_expected(html, frame.x(x.expected), frame.y(y.expected));
    mark_observed(html, frame.x(x.observed), frame.y(y.observed));
  }
  draw_key(html, finding.against,
           ": the sample, and the cell each side reads. Lines run through the pixels' centres; no pixels where it is "
           "hatched.");
}

namespace {

// The drawing of a jump: across, the distance from the boundary in ULP; upwards, the gradient.
struct Jump {
  static constexpr double kWidth = 440, kHeight = 285, kLeft = 16, kRight = 424, kTop = 46, kBottom = 172;
  const Crossing& crossing;
  double reach = 0, low = 0, high = 0;

  explicit Jump(const Crossing& a_crossing) : crossing(a_crossing) {
    const auto ulps = [&](double distance) { return std::isfinite(distance) ? std::abs(distance) : 0; };
    reach = std::max({2.0, ulps(crossing.distance(crossing.observed)), ulps(crossing.distance(crossing.expected)),
                      ulps((crossing.exact - crossing.boundary) / crossing.ulp)});
    reach *= 1.5;
    low = std::min(crossing.observed.gradient, crossing.expected.gradient);
    high = std::max(crossing.observed.gradient, crossing.expected.gradient);
  }
  double x(double ulps) const {
    return kLeft + (std::clamp(ulps, -reach, reach) + reach) / (2 * reach) * (kRight - kLeft);
  }
  double y(double gradient) const {
    return high > low ? kBottom - (gradient - low) / (high - low) * (kBottom - kTop) : (kTop + kBottom) / 2;
  }
};

void draw_branch(Html& html, const Jump& jump, const Crossing::OfSide& side, bool first, const char* style) {
  const double y = jump.y(side.gradient), from = first ? Jump::kLeft : jump.x(0), to = first ? jump.x(0) : Jump::kRight;
  line(html, style, from, y, to, y);
  add_label(html, first ? Jump::kLeft : Jump::kRight, y - 12, first ? "start" : "end",
            fmt::format("{:.7g}", side.gradient));
}

// Where rounding may put a side's coordinate.
void draw_reach(Html& html, const Jump& jump, const Crossing::OfSide& side, double y, const char* style) {
  const Crossing& crossing = jump.crossing;
  const double exact = (crossing.exact - crossing.boundary) / crossing.ulp, error = side.error / crossing.ulp;
  if (!std::isfinite(exact) || !std::isfinite(error)) return;
  const double from = jump.x(exact - error), to = jump.x(exact + error);
  html.empty("path", {{"class", style},
                      {"d", fmt::format("M{0} {2}v8M{0} {3}H{1}M{1} {2}v8", coordinate_text(from), coordinate_text(to),
                                        coordinate_text(y - 4), coordinate_text(y))}});
}

}  // namespace

void draw_jump(Html& html, const Finding& finding) {
  const auto crossing = crossing_of(finding);
  if (!crossing) return;
  const Jump jump(*crossing);
  const auto figure = html.in("figure");
  const char axis = axis_name(crossing->axis);
  {
    const auto svg = drawing(html, Jump::kWidth, Jump::kHeight, "The gradient on both sides of the boundary");
    const double middle = jump.x(0);
    line(html, "boundary", middle, 22, middle, 226);
    add_label(html, middle, 14, "middle",
              fmt::format("{} {} = {:.9g}", crossing->observed.cell != crossing->expected.cell ? "boundary" : "border",
                          axis, crossing->boundary));
    const bool observed_first = crossing->observed_first();
    draw_branch(html, jump, crossing->observed, observed_first, "branch observed-line");
    draw_branch(html, jump, crossing->expected, !observed_first, "branch expected-line");
    mark_expected(html, jump.x(crossing->distance(crossing->expected)), jump.y(crossing->expected.gradient));
    mark_observed(html, jump.x(crossing->distance(crossing->observed)), jump.y(crossing->observed.gradient));
    draw_reach(html, jump, crossing->observed, 200, "reach observed-line");
    draw_reach(html, jump, crossing->expected, 216, "reach expected-line");
    line(html, "axis", Jump::kLeft, 236, Jump::kRight, 236);
    const double step = std::max(1.0, std::pow(10, std::floor(std::log10(jump.reach))));
    for (double tick = -std::floor(jump.reach / step) * step; tick <= jump.reach; tick += step) {
      line(html, "axis", jump.x(tick), 236, jump.x(tick), 241);
      add_label(html, jump.x(tick), 255, "middle", tick == 0 ? "0" : fmt::format("{:+g}", tick));
    }
    add_label(
        html, middle, 276, "middle",
        fmt::format("{} from {:.9g}, in units in the last place of {:.2g}", axis, crossing->boundary, crossing->ulp));
  }
  draw_key(html, crossing->expected.name,
           ": the gradient at each side's coordinate. Below: where rounding may put that coordinate.");
}

void draw_pixel(Html& html, const PixelView& view) {
  const Frame frame{static_cast<double>(view.column) - Frame::kSpan / 2,
                    static_cast<double>(view.row) - Frame::kSpan / 2};
  double largest = 0;
  for (const auto& addend : view.addends) {
    if (std::isfinite(addend.value)) largest = std::max(largest, std::abs(addend.value));
  }
  const auto figure = html.in("figure");
  {
    const auto svg = drawing(html, Frame::kLeft + Frame::kSide + 8, Frame::kTop + Frame::kSide + 8,
                             "The samples that add to the pixel");
    draw_outside(html, frame, static_cast<int32_t>(view.columns), static_cast<int32_t>(view.rows));
    box(html, "cell observed-cell", frame.x(static_cast<double>(view.column) - 0.5),
        frame.y(static_cast<double>(view.row) - 0.5), Frame::kUnit, Frame::kUnit);
    draw_grid(html, frame, 'x', 'y');
    draw_centres(html, frame, static_cast<int32_t>(view.columns), static_cast<int32_t>(view.rows));
    for (const auto& [x, y, value] : view.addends) {
      const bool in_frame = std::abs(x - static_cast<double>(view.column)) <= Frame::kSpan / 2 &&
                            std::abs(y - static_cast<double>(view.row)) <= Frame::kSpan / 2;
      if (!in_frame) continue;
      const double share = std::isfinite(value) && largest > 0 ? std::abs(value) / largest : 1;
      html.empty("circle", {{"class", value < 0 ? "addend less" : "addend"},
                            {"cx", coordinate_text(frame.x(x))},
                            {"cy", coordinate_text(frame.y(y))},
                            {"r", coordinate_text(1.5 + 9 * std::sqrt(share))}});
    }
  }
  const auto caption = html.in("figcaption");
  const size_t count = view.addends.size();
  html.text(
      fmt::format("{}{} sample{} add{} to this pixel, the square in the middle. Area: how much each adds; filled: "
                  "positive, hollow: negative.",
                  view.left_out > 0 ? "The first " : "", count, count == 1 ? "" : "s", count == 1 ? "s" : ""));
}

}  // namespace msda::replay
