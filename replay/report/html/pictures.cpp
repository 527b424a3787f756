#include "replay/report/html/pictures.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "replay/report/html/places.h"

namespace msda::replay {

using analysis::Call;
using analysis::Gradient;
using analysis::Material;
using analysis::Report;
using analysis::Side;
using analysis::Tensor;
using analysis::Tolerance;

namespace {

constexpr int64_t kMostBins = 64;  // along a side of an image
constexpr int64_t kMostRows = 32, kMostColumns = 160;

// Returns which elements of a comparison are out of tolerance, as the report has it.
std::vector<bool> outside_of(const Report& report, const ComparedGradient& compared, int64_t elements) {
  std::vector<bool> outside(static_cast<size_t>(elements));
  for (const auto& set : report.judged) {
    if (set.gradient != compared.gradient || set.against != compared.against) continue;
    for (const auto& [flat, count] : set.runs) {
      std::fill_n(outside.begin() + flat, count, true);
    }
  }
  return outside;
}

// One comparison, and its pictures so far.
struct Drawn {
  const Tensor& observed;
  const Tensor& expected;
  std::vector<bool> outside;
  UlpHistogram histogram;
  ErrorMaps maps;

  // Two infinities or two NaN are equal, unless the report found them out of tolerance.
  bool differs(int64_t flat) const {
    const double o = observed.at(flat), e = expected.at(flat);
    return outside[static_cast<size_t>(flat)] || !(o == e || (std::isnan(o) && std::isnan(e)));
  }
};

void count(Drawn& drawn, const Tolerance& tolerance) {
  UlpHistogram& histogram = drawn.histogram;
  for (int64_t i = 0; i < drawn.observed.elements(); ++i) {
    const double o = drawn.observed.at(i), e = drawn.expected.at(i);
    UlpHistogram::Bin* bin = &histogram.not_finite;
    if (std::isfinite(o) && std::isfinite(e)) {
      const auto place = static_cast<size_t>(std::bit_width(analysis::ulp_distance(o, e, drawn.observed.dtype)));
      if (histogram.bins.size() <= place) histogram.bins.resize(place + 1);
      bin = &histogram.bins[place];
      const double allowed = tolerance.atol + tolerance.rtol * std::abs(e);
      const uint64_t ulps = analysis::ulp_distance(std::abs(e) + allowed, std::abs(e), drawn.observed.dtype);
      if (std::isfinite(allowed)) histogram.tightest = std::min(histogram.tightest.value_or(ulps), ulps);
    } else if (!drawn.differs(i)) {
      continue;
    }
    ++(drawn.outside[static_cast<size_t>(i)] ? bin->outside : bin->within);
  }
}

// Returns the dimensions that a map by indices has: of those of the gradient that no image shows, the heads and the
// largest.
std::vector<analysis::Dimension> map_dimensions(const Call& call, Gradient gradient) {
  std::vector<analysis::Dimension> chosen;
  const auto sizes = call.sizes(), at = call.coordinates_of(gradient, 0);
  for (const analysis::Dimension dimension : call.dimensions()) {
    const std::string_view name = dimension.name();
    if (at[dimension.place()] >= 0 && name != "pixel" && name != "level" && sizes[dimension.place()] > 1) {
      chosen.push_back(dimension);
    }
  }
  const auto order = [&](analysis::Dimension a, analysis::Dimension b) {
    const auto rank = [&](analysis::Dimension d) {
      return std::pair(std::string_view(d.name()) != "head", -sizes[d.place()]);
    };
    return rank(a) < rank(b);
  };
  std::ranges::stable_sort(chosen, order);
  if (chosen.size() > 2) chosen.resize(2);
  return chosen;
}

class Mapper {
 public:
  Mapper(const Call& call, std::vector<Drawn>& drawn, int threads)
      : call_(call), drawn_(drawn), places_(call, threads) {
    for (Drawn& entry : drawn_) prepare(entry);
  }

  void map() {
    for (Drawn& drawn : drawn_) {
      if (drawn.maps.compared.gradient.scattered()) map_pixels(drawn);
    }
    places_.for_each_part([&](int64_t first, int64_t count) {
      for (Drawn& drawn : drawn_) {
        if (!drawn.maps.compared.gradient.scattered()) map_samples(drawn, first, count);
      }
    });
  }

 private:
  void prepare(Drawn& drawn) {
    const Gradient gradient = drawn.maps.compared.gradient;
    for (const ImagePlace& image : places_.images()) {
      drawn.maps.images.emplace_back(image.title, "row", "column", image.rows, image.columns, kMostBins, kMostBins);
    }
    const auto dimensions = map_dimensions(call_, gradient);
    if (dimensions.empty()) return;
    const auto sizes = call_.sizes();
    // The longer one goes across.
    auto down = dimensions.front(), across = dimensions.back();
    if (sizes[down.place()] > sizes[across.place()]) std::swap(down, across);
    const bool one_row = dimensions.size() == 1;
    drawn.maps.indices.emplace(
        one_row ? std::string(across.name()) : std::string(down.name()) + " and " + across.name(),
        one_row ? "" : down.name(), across.name(), one_row ? 1 : sizes[down.place()], sizes[across.place()], kMostRows,
        kMostColumns);
    rows_.push_back({gradient, one_row ? std::nullopt : std::optional(down), across});
  }

  void add(Drawn& drawn, int64_t flat, std::optional<PlaceInImage> place) {
    const double o = drawn.observed.at(flat), e = drawn.expected.at(flat);
    const bool is_outside = drawn.outside[static_cast<size_t>(flat)];
    drawn.maps.any = true;
    const double difference = std::isfinite(o) && std::isfinite(e) ? std::abs(o - e) : HUGE_VAL;
    if (place) drawn.maps.images[place->image].add(place->row, place->column, difference, is_outside);
    const auto found = std::ranges::find(rows_, drawn.maps.compared.gradient, &Rows::gradient);
    if (found == rows_.end()) return;
    const auto at = call_.coordinates_of(drawn.maps.compared.gradient, flat);
    drawn.maps.indices->add(found->down ? at[found->down->place()] : 0, at[found->across.place()], difference,
                            is_outside);
  }

  void map_pixels(Drawn& drawn) {
    for (int64_t flat = 0; flat < drawn.observed.elements(); ++flat) {
      if (!drawn.differs(flat)) continue;
      add(drawn, flat, places_.of_pixel(drawn.maps.compared.gradient, flat));
    }
  }

  void map_samples(Drawn& drawn, int64_t first, int64_t count) {
    const int64_t width = drawn.observed.elements() / std::max<int64_t>(1, call_.stages()->sample_count());
    for (int64_t flat = first * width; flat < (first + count) * width; ++flat) {
      if (!drawn.differs(flat)) continue;
      add(drawn, flat, places_.of_sample(drawn.maps.compared.gradient, flat, flat / width));
    }
  }

  struct Rows {
    Gradient gradient;
    std::optional<analysis::Dimension> down;
    analysis::Dimension across;
  };

  const Call& call_;
  std::vector<Drawn>& drawn_;
  Places places_;
  std::vector<Rows> rows_;
};

// Chooses each group's worst, then the others in turn, one of each group.
std::vector<ListedFinding> choose(const Report& report, size_t most) {
  std::vector<std::vector<size_t>> of_group(report.groups.size());
  for (size_t group = 0; group < of_group.size(); ++group) of_group[group] = {report.groups[group].farthest};
  for (size_t i = 0; i < report.findings.size(); ++i) {
    for (size_t group = 0; group < of_group.size(); ++group) {
      if (i == report.groups[group].farthest || !report.groups[group].contains(report.findings[i])) continue;
      of_group[group].push_back(i);
      break;
    }
  }
  std::vector<size_t> taken(of_group.size());
  size_t all = 0;
  for (bool more = true; more;) {
    more = false;
    for (size_t group = 0; group < of_group.size(); ++group) {
      if (taken[group] == of_group[group].size() || (all >= most && taken[group] > 0)) continue;
      ++taken[group];
      ++all;
      more = true;
    }
  }
  std::vector<ListedFinding> listed;
  for (size_t group = 0; group < of_group.size(); ++group) {
    for (size_t i = 0; i < taken[group]; ++i) listed.push_back({of_group[group][i], group, {}, {}});
  }
  return listed;
}

}  // namespace

ErrorMap::ErrorMap(std::string a_title, std::string rows_of, std::string columns_of, int64_t row_count,
                   int64_t column_count, int64_t most_rows, int64_t most_columns)
    : title(std::move(a_title)),
      row_name(std::move(rows_of)),
      column_name(std::move(columns_of)),
      all_rows(row_count),
      all_columns(column_count) {
  // Bins of an image are square.
  const bool square = most_rows == most_columns;
  const auto share = [](int64_t size, int64_t most) { return std::max<int64_t>(1, (size + most - 1) / most); };
  of_rows = share(all_rows, most_rows);
  of_columns = share(all_columns, most_columns);
  if (square) of_rows = of_columns = std::max(of_rows, of_columns);
  rows = (all_rows + of_rows - 1) / of_rows;
  columns = (all_columns + of_columns - 1) / of_columns;
  largest.resize(static_cast<size_t>(rows * columns));
  outside.resize(largest.size());
}

void ErrorMap::add(int64_t row, int64_t column, double difference, bool is_outside) {
  const auto at = static_cast<size_t>(row / of_rows * columns + column / of_columns);
  largest[at] = std::max(largest[at], difference);
  if (is_outside) outside[at] = true;
}

Pictures take_pictures(const Material& material, const Report& report, const std::optional<Tolerance>& tolerance,
                       size_t most_listed, int threads) {
  const Call& call = *material.call;
  std::vector<Drawn> drawn;
  const auto compare = [&](const Side& expected) {
    for (const Gradient gradient : call.gradients()) {
      const Tensor &o = material.recorded.of(gradient), &e = expected.of(gradient);
      if (!o || !e || o.elements() == 0) continue;
      const ComparedGradient compared{gradient, expected.name};
      drawn.push_back(
          {o, e, outside_of(report, compared, o.elements()), {compared, {}, {}, {}}, {compared, {}, {}, false}});
      count(drawn.back(), tolerance.value_or(analysis::customary_tolerance(o.dtype)));
    }
  };
  if (material.reference) compare(*material.reference);
  compare(material.float64);
  Mapper(call, drawn, threads).map();

  Pictures pictures;
  for (Drawn& entry : drawn) {
    pictures.histograms.push_back(std::move(entry.histogram));
    pictures.maps.push_back(std::move(entry.maps));
  }
  pictures.listed = choose(report, most_listed);
  const Viewer viewer(material);
  for (ListedFinding& listed : pictures.listed) {
    const analysis::Finding& finding = report.findings[listed.finding];
    listed.sample = viewer.sample_of(finding);
    if (listed.finding == report.groups[listed.group].farthest) listed.pixel = viewer.pixel_of(finding);
  }
  return pictures;
}

}  // namespace msda::replay
