#include "analysis/reduction.h"

namespace msda::analysis {

std::vector<std::string> names_of(Steps steps) {
  constexpr std::pair<Step, const char*> kNames[] = {{kGradOutput, "grad_output"},
                                                     {kAttentionWeights, "attention_weights"},
                                                     {kValue, "value"},
                                                     {kLocations, "sampling_locations"},
                                                     {kInterpolationWeights, "interpolation_weights"},
                                                     {kSampledValue, "sampled_value"},
                                                     {kWeightedGradOutput, "grad_output*attention_weights"},
                                                     {kAddends, "addends"},
                                                     {kSums, "sums"},
                                                     {kResult, "result"}};
  std::vector<std::string> names;
  for (const auto& [step, name] : kNames) {
    if ((steps & step) != 0) names.emplace_back(name);
  }
  return names;
}

}  // namespace msda::analysis
