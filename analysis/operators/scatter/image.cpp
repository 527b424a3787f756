#include "analysis/operators/scatter/image.h"

#include <fmt/format.h>

namespace msda::analysis {
namespace {

constexpr Gradient::Description kDescribedGradients[] = {{"grad_input", 0, true}};
constexpr auto kGradients = described<Gradient>(kDescribedGradients);

constexpr Dimension::Description kDescribedDimensions[] = {
    {"batch", 0, false, false}, {"channel", 1, false, false}, {"pixel", 2, false, false}};
constexpr auto kDimensions = described<Dimension>(kDescribedDimensions);

}  // namespace

std::span<const Gradient> ImageScatterCall::gradients() const { return kGradients; }

std::span<const Dimension> ImageScatterCall::dimensions() const { return kDimensions; }

Coordinates ImageScatterCall::coordinates_of(Gradient, int64_t flat) const {
  return {flat / to_.minor / C, flat / to_.minor % C, flat % to_.minor};
}

std::span<const Call::Part> ImageScatterCall::parts() const {
  static const Part kParts[] = {{}, {kDimensions[0]}, {kDimensions[1]}};
  return kParts;
}

std::vector<std::string> ImageScatterCall::text_of_place(Gradient gradient, int64_t flat) const {
  constexpr const char* kSides[] = {"column", "row", "slice"};
  const Index at = element_id(gradient, flat).index;
  std::vector<std::string> texts{text_of(kDimensions[0], at[0]), text_of(kDimensions[1], at[1])};
  for (size_t i = 2; i < at.size(); ++i) texts.push_back(fmt::format("{} {}", kSides[at.size() - 1 - i], at[i]));
  return texts;
}

}  // namespace msda::analysis
