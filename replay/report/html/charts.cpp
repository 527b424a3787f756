#include "replay/report/html/charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "replay/base/json.h"

namespace msda::replay {

using analysis::thousands;

namespace {

Html::Element chart(Html& html, const char* style, double width, double height, const std::string& title) {
  auto svg = html.in("svg", {{"class", style},
                             {"viewBox", fmt::format("0 0 {} {}", coordinate_text(width), coordinate_text(height))},
                             {"width", coordinate_text(width)},
                             {"height", coordinate_text(height)},
                             {"role", "img"}});
  html.add("title", title);
  return svg;
}

void path(Html& html, const char* style, const std::string& d) { html.empty("path", {{"class", style}, {"d", d}}); }

// "4,096", "65.5 k", "1.07 G"
std::string short_number(double x) {
  if (x < 10'000) return thousands(static_cast<int64_t>(x));
  constexpr std::array<const char*, 6> kUnits{"", " k", " M", " G", " T", " P"};
  size_t unit = 0;
  while (x >= 1000 && unit + 1 < kUnits.size()) {
    x /= 1000;
    ++unit;
  }
  return fmt::format("{:.3g}{}", x, kUnits[unit]);
}

// Returns the least distance in bin i: 0, 1, 2, 4, 8, ...
double first_of_bin(size_t i) { return i == 0 ? 0 : std::ldexp(1.0, static_cast<int>(i) - 1); }

// The frame of a histogram with a logarithmic scale of counts.
struct Bars {
  static constexpr double kLeft = 52, kTop = 26, kHeight = 150, kBottom = kTop + kHeight;
  double step, most;

  double width() const { return 0.78 * step; }
  double x(size_t bin) const { return kLeft + 6 + static_cast<double>(bin) * step; }
  double height(double count) const {
    return count > 0 ? kHeight * (std::log10(count) + 0.3) / (std::log10(most) + 0.3) : 0;
  }
};

void draw_bin(Html& html, const Bars& bars, size_t i, const UlpHistogram::Bin& bin, const std::string& distances) {
  if (bin.within + bin.outside == 0) return;
  const double all = bars.height(static_cast<double>(bin.within + bin.outside));
  const double bad = bin.within == 0 ? all : std::min(bars.height(static_cast<double>(bin.outside)), 0.5 * all);
  const auto group = html.in("g");
  html.add("title", fmt::format("{} ULP: {} within tolerance, {} out of it", distances, thousands(bin.within),
                                thousands(bin.outside)));
  path(html, "within",
       fmt::format("M{} {}h{}v-{}h-{}z", coordinate_text(bars.x(i)), coordinate_text(Bars::kBottom),
                   coordinate_text(bars.width()), coordinate_text(all - bad), coordinate_text(bars.width())));
  if (bin.outside == 0) return;
  path(html, "beyond",
       fmt::format("M{} {}h{}v-{}h-{}z", coordinate_text(bars.x(i)), coordinate_text(Bars::kBottom - all + bad),
                   coordinate_text(bars.width()), coordinate_text(bad), coordinate_text(bars.width())));
}

void draw_counts(Html& html, const Bars& bars, double right) {
  for (double count = 1; count <= bars.most; count *= 10) {
    const double y = Bars::kBottom - bars.height(count);
    path(html, "grid",
         fmt::format("M{} {}H{}", coordinate_text(Bars::kLeft), coordinate_text(y), coordinate_text(right)));
    add_label(html, Bars::kLeft - 6, y + 4, "end", short_number(count));
  }
  path(html, "axis",
       fmt::format("M{} {}H{}", coordinate_text(Bars::kLeft), coordinate_text(Bars::kBottom), coordinate_text(right)));
}

}  // namespace

void draw_histogram(Html& html, const UlpHistogram& histogram) {
  const size_t bins = histogram.bins.size();
  const bool infinite = histogram.not_finite.within + histogram.not_finite.outside > 0;
  const size_t places = std::max<size_t>(
      8, std::max(bins, histogram.tightest
                            ? static_cast<size_t>(std::log2(static_cast<double>(*histogram.tightest) + 1)) + 2
                            : 0));
  double most = 1;
  int64_t outside = histogram.not_finite.outside, all = outside + histogram.not_finite.within;
  for (const auto& bin : histogram.bins) {
    most = std::max(most, static_cast<double>(bin.within + bin.outside));
    outside += bin.outside;
    all += bin.within + bin.outside;
  }
  const Bars bars{std::clamp(520.0 / static_cast<double>(places + 1), 9.0, 30.0), most};
  const double right = bars.x(places + (infinite ? 2 : 0)) + 4;
  const auto figure = html.in("figure", {{"class", "chart"}});
  {
    const auto svg = chart(html, "drawing", right + 10, 222, "Histogram of errors in units in the last place");
    draw_counts(html, bars, right);
    size_t every = 2;  // bins from one label to the next, so far apart that the labels of narrow screens have room
    while (bars.step * static_cast<double>(every) < 56) every *= 2;
    for (size_t i = 0; i < places; ++i) {
      const double first = first_of_bin(i), last = i == 0 ? 0 : 2 * first - 1;
      if (i < bins) {
        draw_bin(html, bars, i, histogram.bins[i],
                 first == last ? short_number(first) : short_number(first) + " to " + short_number(last));
      }
      if (i < 2 || (i - 1) % every == 0)
        add_label(html, bars.x(i) + bars.width() / 2, Bars::kBottom + 16, "middle", short_number(first));
    }
    if (infinite) {
      draw_bin(html, bars, places + 1, histogram.not_finite, "not finite,");
      add_label(html, bars.x(places + 1) + bars.width() / 2, Bars::kBottom + 16, "middle", "NaN, ∞");
    }
    add_label(html, (Bars::kLeft + right) / 2, Bars::kBottom + 38, "middle", "units in the last place apart");
    if (histogram.tightest) {
      const auto tightest = static_cast<double>(*histogram.tightest);
      const double x = bars.x(0) + (tightest < 1 ? 0.5 : std::log2(tightest) + 1) * bars.step;
      path(html, "limit",
           fmt::format("M{} {}V{}", coordinate_text(x), coordinate_text(Bars::kTop - 8),
                       coordinate_text(Bars::kBottom)));
      const bool left = x > (Bars::kLeft + right) / 2;
      add_label(html, x + (left ? -5 : 5), Bars::kTop - 10, left ? "end" : "start",
                fmt::format("tolerance from {} ULP", short_number(tightest)));
    }
  }
  const auto caption = html.in("figcaption");
  html.add("strong", fmt::format("{} from {}", name_of(histogram.compared.gradient), histogram.compared.against));
  html.text(fmt::format(": {} of {} elements out of tolerance.", thousands(outside), thousands(all)));
}

namespace {

constexpr int kShades = 8;

// The scale of a map: from the least difference that is not zero to the largest, logarithmic. Bins with elements out of
// tolerance have the last shade and do not stretch it, or all others would have the first.
struct Scale {
  double least = HUGE_VAL, most = 0;
  bool any = false, infinite = false;

  explicit Scale(const ErrorMap& map) {
    for (size_t i = 0; i < map.largest.size(); ++i) {
      const double largest = map.largest[i];
      if (!std::isfinite(largest)) infinite = true;
      any = any || largest > 0;
      if (largest > 0 && std::isfinite(largest) && !map.outside[i]) {
        least = std::min(least, largest);
        most = std::max(most, largest);
      }
    }
  }
  // Returns a shade from 1 on; 0: no difference.
  int shade(const ErrorMap& map, int64_t bin) const {
    const double difference = map.largest[static_cast<size_t>(bin)];
    if (map.outside[static_cast<size_t>(bin)]) return kShades;
    if (!(difference > 0)) return 0;
    if (!std::isfinite(difference) || least >= most) return kShades;
    const double share = std::log(difference / least) / std::log(most / least);
    return 1 + std::clamp(static_cast<int>(share * kShades), 0, kShades - 1);
  }
};

// Runs of bins of one shade, as horizontal strokes of one bin's width.
std::string strokes(const ErrorMap& map, const Scale& scale, int shade) {
  std::string d;
  for (int64_t row = 0; row < map.rows; ++row) {
    const auto shade_at = [&](int64_t column) { return scale.shade(map, row * map.columns + column); };
    for (int64_t column = 0; column < map.columns; ++column) {
      if (shade_at(column) != shade) continue;
      int64_t end = column;
      while (end < map.columns && shade_at(end) == shade) ++end;
      d += fmt::format("M{} {}h{}", column, row, end - column);
      column = end;
    }
  }
  return d;
}

std::string outside_marks(const ErrorMap& map) {
  std::string d;
  for (int64_t i = 0; i < map.rows * map.columns; ++i) {
    if (map.outside[static_cast<size_t>(i)]) d += fmt::format("M{}.5 {}h0", i % map.columns, i / map.columns);
  }
  return d;
}

// "row 12, column 40 to 43"
std::string place_of_bin(const ErrorMap& map, size_t bin) {
  const auto part = [](const std::string& name, int64_t at, int64_t all, int64_t share) {
    const int64_t first = at * share, last = std::min(all, first + share) - 1;
    if (name.empty()) return std::string();
    return first == last ? fmt::format("{} {}", name, first) : fmt::format("{} {} to {}", name, first, last);
  };
  const auto columns = static_cast<size_t>(map.columns);
  const std::string row = part(map.row_name, static_cast<int64_t>(bin / columns), map.all_rows, map.of_rows);
  const std::string column =
      part(map.column_name, static_cast<int64_t>(bin % columns), map.all_columns, map.of_columns);
  return row.empty() ? column : row + ", " + column;
}

void draw_scale(Html& html, const Scale& scale) {
  const auto line = html.in("span", {{"class", "scale"}});
  html.add("span", fmt::format("{:.2g}", scale.least));
  {
    const auto svg = html.in(
        "svg", {{"class", "ramp"}, {"viewBox", "0 0 8 1"}, {"preserveAspectRatio", "none"}, {"aria-hidden", "true"}});
    for (int shade = 1; shade <= kShades; ++shade) {
      html.empty("path", {{"class", fmt::format("q{}", shade)}, {"d", fmt::format("M{} .5h1", shade - 1)}});
    }
  }
  html.add("span", fmt::format("{:.2g}", scale.most));
}

}  // namespace

void draw_map(Html& html, const ErrorMap& map, bool wide) {
  const Scale scale(map);
  const auto figure = html.in("figure", {{"class", wide ? "map wide" : "map"}});
  html.add("p", {{"class", "map-title"}}, wide ? "by " + map.title : map.title);
  if (!scale.any) {
    html.add("p", {{"class", "quiet"}}, "no difference");
    return;
  }
  // Wide maps stretch to the width there is; the others show each bin as a square.
  const double bin =
      wide ? 0 : std::clamp(std::floor(208.0 / static_cast<double>(std::max(map.rows, map.columns))), 3.0, 40.0);
  const double height =
      wide ? std::clamp(static_cast<double>(map.rows) * 14, 20.0, 224.0) : bin * static_cast<double>(map.rows);
  {
    const auto svg = html.in("svg", {{"class", "heat"},
                                     {"viewBox", fmt::format("0 -.5 {} {}", map.columns, map.rows)},
                                     {"width", wide ? "100%" : coordinate_text(bin * static_cast<double>(map.columns))},
                                     {"height", coordinate_text(height)},
                                     {"preserveAspectRatio", wide ? "none" : "xMidYMid"},
                                     {"role", "img"}});
    html.add("title", "Largest differences of " + map.title);
    for (int shade = 1; shade <= kShades; ++shade) {
      const std::string d = strokes(map, scale, shade);
      if (!d.empty()) html.empty("path", {{"class", fmt::format("q{}", shade)}, {"d", d}});
    }
    if (const std::string d = outside_marks(map); !d.empty()) {
      path(html, "marks-under", d);
      path(html, "marks", d);
    }
  }
  const auto caption = html.in("figcaption");
  if (scale.most > 0) draw_scale(html, scale);
  const auto worst = std::ranges::max_element(map.largest, {}, [](double x) { return std::isfinite(x) ? x : -1; });
  if (std::isfinite(*worst)) {
    html.text(fmt::format("largest {:.3g} at {}", *worst,
                          place_of_bin(map, static_cast<size_t>(worst - map.largest.begin()))));
  }
  if (scale.infinite) html.text(std::isfinite(*worst) ? "; also NaN or infinite" : "NaN or infinite");
}

void draw_schedule(Html& html, const Json& bins, const std::string& index_name) {
  size_t shown = 0;
  for (const Json& bin : bins) shown += bin["pairs"].get<int64_t>() > 0;
  if (shown == 0) return;
  constexpr double kStep = 22, kLeft = 110, kWidth = 330;
  const auto figure = html.in("figure", {{"class", "chart"}});
  {
    const auto svg =
        chart(html, "drawing", kLeft + kWidth + 70, kStep * static_cast<double>(shown) + 8, "Share of inverted pairs");
    double y = 4;
    for (const Json& bin : bins) {
      if (bin["pairs"].get<int64_t>() == 0) continue;
      const double share = bin["share"];
      add_label(html, kLeft - 8, y + 14, "end",
                fmt::format("{} to {}", bin["nearest"].get<int64_t>(), bin["farthest"].get<int64_t>()));
      path(html, "within",
           fmt::format("M{} {}h{}v{}h-{}z", coordinate_text(kLeft), coordinate_text(y + 3),
                       coordinate_text(share * kWidth), coordinate_text(kStep - 6), coordinate_text(share * kWidth)));
      path(html, "axis", fmt::format("M{} {}v{}", coordinate_text(kLeft), coordinate_text(y), coordinate_text(kStep)));
      add_label(html, kLeft + share * kWidth + 6, y + 14, "start", fmt::format("{:.3f}", share));
      y += kStep;
    }
  }
  html.add(
      "figcaption",
      fmt::format("The share of pairs of additions that came in the order opposite to that of their {} numbers, by the "
                  "distance between the numbers.",
                  index_name));
}

void draw_curve(Html& html, const Json& points, const char* name, double own) {
  std::vector<std::array<double, 4>> drawn;  // tolerance, estimate, low, high
  for (const Json& point : points) {
    const double x = point.at(name);
    if (x > 0) drawn.push_back({x, point.at("estimate"), point.at("low"), point.at("high")});
  }
  if (drawn.size() < 2) return;
  std::ranges::sort(drawn);
  constexpr double kLeft = 56, kTop = 24, kRight = 500, kBottom = 190;
  const double first = std::log10(drawn.front()[0]), last = std::log10(drawn.back()[0]);
  double most = 0.01;
  for (const auto& point : drawn) most = std::max(most, point[3]);
  const auto x = [&](double tolerance) {
    return kLeft + 14 + (std::log10(tolerance) - first) / (last - first) * (kRight - kLeft - 28);
  };
  const auto y = [&](double probability) { return kBottom - probability / most * (kBottom - kTop); };
  const auto figure = html.in("figure", {{"class", "chart"}});
  {
    const auto svg = chart(html, "drawing", kRight + 12, 236, fmt::format("Failure probability by {}", name));
    for (int i = 0; i <= 4; ++i) {
      const double p = most * i / 4;
      path(html, i == 0 ? "axis" : "grid",
           fmt::format("M{} {}H{}", coordinate_text(kLeft), coordinate_text(y(p)), coordinate_text(kRight)));
      add_label(html, kLeft - 6, y(p) + 4, "end", fmt::format("{:.3g} %", 100 * p));
    }
    for (double power = std::ceil(first); power <= last; ++power) {
      add_label(html, x(std::pow(10, power)), kBottom + 18, "middle", fmt::format("1e{:.0f}", power));
    }
    add_label(html, (kLeft + kRight) / 2, kBottom + 40, "middle", name);
    std::string d;
    for (const auto& [tolerance, estimate, low, high] : drawn) {
      d += fmt::format("{}{} {}", d.empty() ? "M" : "L", coordinate_text(x(tolerance)), coordinate_text(y(estimate)));
      path(html, "interval",
           fmt::format("M{0} {1}V{2}M{3} {1}h8M{3} {2}h8", coordinate_text(x(tolerance)), coordinate_text(y(low)),
                       coordinate_text(y(high)), coordinate_text(x(tolerance) - 4)));
    }
    path(html, "curve", d);
    for (const auto& point : drawn) {
      html.empty("circle", {{"class", point[0] == own ? "observed own" : "observed"},
                            {"cx", coordinate_text(x(point[0]))},
                            {"cy", coordinate_text(y(point[1]))},
                            {"r", point[0] == own ? "6" : "4"}});
    }
    if (own > 0 && own >= drawn.front()[0] && own <= drawn.back()[0]) {
      path(html, "limit",
           fmt::format("M{} {}V{}", coordinate_text(x(own)), coordinate_text(kTop - 6), coordinate_text(kBottom)));
      add_label(html, x(own) + 6, kTop - 8, "start", fmt::format("the test's, {:g}", own));
    }
  }
  html.add("figcaption", fmt::format("How often the test fails with another {}; bars are confidence intervals.", name));
}

}  // namespace msda::replay
