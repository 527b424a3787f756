// Mode nearest: each pixel adds up the output pixels between two ends, and rounding may move either end, where one of
// the ways in which kernels compute them says so. Where coordinates have no roundings, as for images of twice the size,
// it moves none, and an output pixel that is added elsewhere is a mistake.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "analysis/numbers/rounding.h"
#include "analysis/operators/interpolate/call.h"

namespace msda::analysis {
namespace {

constexpr size_t kWays = std::size(InterpolateCall::kNearestVariants);

// What a pixel adds up by each of InterpolateCall::kNearestVariants.
class Ways {
 public:
  Ways(const InterpolateCall& call, const Resized& side, int64_t pixel) : pixel_(pixel) {
    for (size_t i = 0; i < kWays; ++i) all_[i] = call.readers(side, pixel, InterpolateCall::kNearestVariants[i]);
    for (const Readers& way : all_) {
      if (way.first != all_[0].first) disputed_ = std::min(way.first, all_[0].first);
    }
    for (const Readers& way : all_) {
      if (!disputed_ && way.end != all_[0].end) disputed_ = std::min(way.end, all_[0].end);
    }
  }

  // Returns an output pixel that is not the same pixel's by all of them, or else the first that is added.
  int64_t output() const { return disputed_.value_or(all_[0].first); }

  // A landing's region is the first way that has its readers.
  Landing landing(InterpolateCall::Variant by) const {
    const Readers& read = all_[static_cast<size_t>(std::ranges::find(InterpolateCall::kNearestVariants, by) -
                                                   InterpolateCall::kNearestVariants)];
    Landing landing{};
    const auto same = std::ranges::find_if(all_, [&](const Readers& way) { return way == read; });
    landing.region = static_cast<int32_t>(same - all_.begin());
    const int64_t away = !disputed_ ? 0 : *disputed_ < read.first ? -1 : *disputed_ >= read.end ? 1 : 0;
    landing.low = static_cast<int32_t>(pixel_ + away);
    return landing;
  }

 private:
  int64_t pixel_;
  std::array<Readers, kWays> all_{};
  std::optional<int64_t> disputed_;
};

Ways ways_of(const InterpolateCall& call, const Axis& axis) {
  return {call, call.sides[axis.number], static_cast<int64_t>(axis.location)};
}

}  // namespace

Axes InterpolateCall::axes(const ElementId& id) const {
  Axes all;
  if (!is_nearest()) return all;
  int64_t rest = to_.at(id.flat).place;
  for (int axis = 0; axis < axes_count; ++axis) {
    const auto size = static_cast<int32_t>(sides[axis].in);
    all.push_back({static_cast<double>(rest % size), size, MSDA_FLOAT64, axis});
    rest /= size;
  }
  return all;
}

Coordinate InterpolateCall::coordinate(const Axis& axis, const Precision& precision) const {
  return coordinate_of(sides[axis.number], ways_of(*this, axis).output(), coordinate_precision(precision));
}

Landings InterpolateCall::landings(const Axis& axis, const Precision&) const {
  const Ways ways = ways_of(*this, axis);
  Landings all;
  for (const Variant by : kNearestVariants) {
    const Landing landing = ways.landing(by);
    if (std::ranges::find(all, landing) == all.end()) all.push_back(landing);
  }
  return all;
}

std::vector<Evaluation> InterpolateCall::evaluations(const Axis& axis, msda_dtype type) const {
  const Ways ways = ways_of(*this, axis);
  const Resized& side = sides[axis.number];
  const double coordinate = computed_coordinate(side, ways.output(), {"", type, kWritten});
  const double exact = coordinate_of(side, ways.output(), Precision::of(MSDA_FLOAT32)).exact;
  // PyTorch's kernels for GPUs compute no coordinate, but where each pixel's output pixels begin.
  const auto boundary = static_cast<int64_t>(nearest_boundary(exact));
  const float begin = begin_by_inverse(side, boundary);
  std::vector<Evaluation> all{{"as written", coordinate, ways.landing(kWritten)},
                              {"by the inverse ratio", coordinate, ways.landing(kInverse), /*stops=*/false,
                               fmt::format("output pixel {}, while cell {} begins at {:.9g} (0x{:08x}) by the inverse "
                                           "ratio,",
                                           ways.output(), boundary, begin, std::bit_cast<uint32_t>(begin))}};
  if (type == MSDA_FLOAT64) {
    all.push_back({"without rounding", exact, ways.landing(kUnrounded)});
  }
  return all;
}

void InterpolateCall::terms(const ElementId& id, const Place& place, const Precisions& precisions, Cache& cache,
                            const VisitTerm& visit) const {
  if (!is_nearest()) return ScatterCall::terms(id, place, precisions, cache, visit);
  const auto at = to_.at(id.flat);
  Readers along[3] = {{0, 1}, {0, 1}, {0, 1}};
  int64_t rest = at.place;
  for (int axis = 0; axis < axes_count; ++axis) {
    const auto way = static_cast<size_t>(place[static_cast<size_t>(axis)].region);
    along[axis] = readers(sides[axis], rest % sides[axis].in, kNearestVariants[way]);
    rest /= sides[axis].in;
  }
  Term term;
  term.inputs.push_back({});
  for (int64_t z = along[2].first; z < along[2].end; ++z) {
    for (int64_t y = along[1].first; y < along[1].end; ++y) {
      for (int64_t x = along[0].first; x < along[0].end; ++x) {
        term.number = (z * sides[1].out + y) * sides[0].out + x;
        term.inputs[0].flat = from_.flat({term.number, at.channel});
        visit(term);
      }
    }
  }
}

}  // namespace msda::analysis
