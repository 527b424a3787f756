// The other dialects, paddings, values of align_corners and orders of spatial_shapes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "analysis/operators/msda/call.h"
#include "kernels/names.h"

namespace msda::analysis {
namespace {

struct SwappedCall {
  MsdaCall call;
  std::vector<int64_t> shapes;  // that its spatial_shapes refer to
};

// Returns the call with height and width of each level exchanged.
std::shared_ptr<MsdaCall> with_swapped_shapes(const MsdaCall& call) {
  const auto swapped = std::make_shared<SwappedCall>(SwappedCall{call, {}});
  for (LevelSize& level : swapped->call.levels) {
    std::swap(level.height, level.width);
    swapped->shapes.insert(swapped->shapes.end(), {level.height, level.width});
  }
  swapped->call.spatial_shapes = {swapped->shapes.data(), MSDA_INT64, {call.L, 2}};
  return {swapped, &swapped->call};
}

}  // namespace

std::shared_ptr<const Call> MsdaCall::with(const Conventions& changed) const {
  if (changed == conventions) return nullptr;
  auto call = std::make_shared<MsdaCall>(*this);
  call->conventions = changed;
  return call;
}

std::shared_ptr<const Call> MsdaCall::under(const Call& another) const {
  return with(static_cast<const MsdaCall&>(another).conventions);
}

std::shared_ptr<const Call> MsdaCall::in_dialect(const std::string& name) const {
  return in_dialect(kernels::dialect_named(name).value());
}

std::shared_ptr<const Call> MsdaCall::padded(msda_padding padding, bool align_corners) const {
  return with({conventions.dialect, padding, align_corners});
}

std::shared_ptr<const Call> MsdaCall::in_dialect(msda_dialect dialect) const {
  return with({dialect, conventions.padding, conventions.align_corners});
}

int64_t MsdaCall::conventions_number() const {
  return (conventions.dialect * 2 + conventions.padding) * 2 + (conventions.align_corners ? 1 : 0);
}

std::vector<Alternative> MsdaCall::alternatives() const {
  std::vector<Alternative> all;
  for (const bool swapped : {false, true}) {
    for (const msda_dialect dialect : {conventions.dialect, MSDA_MSDA_TRITON, MSDA_DEFORMABLE_DETR}) {
      for (const msda_padding padding : {MSDA_PADDING_ZEROS, MSDA_PADDING_BORDER}) {
        for (const bool align : {false, true}) {
          if (dialect == MSDA_DEFORMABLE_DETR && (padding != MSDA_PADDING_ZEROS || align)) continue;
          std::vector<std::string> changes;
          // In float64 the dialects differ in their paddings and in align_corners alone.
          if (padding != conventions.padding) {
            changes.push_back(fmt::format("padding {} in place of {}", msda_padding_name(padding),
                                          msda_padding_name(conventions.padding)));
          }
          if (align != conventions.align_corners) {
            changes.push_back(fmt::format("align_corners {} in place of {}", align, conventions.align_corners));
          }
          if (swapped) changes.push_back("spatial_shapes as (width, height) in place of (height, width)");
          const std::string text = fmt::format("{}", fmt::join(changes, " and "));
          if (changes.empty() || std::ranges::find(all, text, &Alternative::text) != all.end()) continue;
          const auto call = swapped ? with_swapped_shapes(*this) : std::make_shared<MsdaCall>(*this);
          call->conventions = {dialect, padding, align};
          all.push_back({text, call});
        }
      }
    }
  }
  return all;
}

}  // namespace msda::analysis
