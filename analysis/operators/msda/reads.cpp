// What an element of deformable attention's gradients is computed from: inputs, and stages.
#include "analysis/operators/msda/element.h"
#include "analysis/operators/msda/stages.h"

namespace msda::analysis {
namespace {

bool visit_pixel_inputs(const MsdaCall& call, const PixelId& pixel, const Precision& precision,
                        ContributionCache& cache, const Call::VisitInput& visit) {
  const auto contributions = cache.get(call.conventions, pixel.b, pixel.m, pixel.l, precision);
  for (const auto& addend : contributions->exact(pixel.s)) {
    const SampleId sample{pixel.b, addend.q, pixel.m, pixel.l, addend.p()};
    const int64_t flat = sample.flat(call);
    for (int axis = 0; axis < 2; ++axis) {
      if (visit("sampling_locations", call.sampling_locations, 2 * flat + axis)) return true;
    }
    if (visit("attention_weights", call.attention_weights, flat)) return true;
    if (visit("grad_output", call.grad_output, sample.grad_output_row(call) + pixel.d)) return true;
  }
  return false;
}

}  // namespace

bool MsdaCall::visit_inputs(const ElementId& id, const Place& place, const Precision& precision, Cache& cache,
                            const VisitInput& visit) const {
  if (id.gradient.scattered()) {
    auto& contributions = static_cast<ContributionCache&>(cache);
    return visit_pixel_inputs(*this, pixel_of(id.flat), precision, contributions, visit);
  }
  const SampleId sample = sample_of(id.gradient, id.flat);
  for (const int64_t row : corner_rows(conventions, level_of(sample), place[0].low, place[1].low)) {
    for (int64_t d = 0; row >= 0 && d < D; ++d) {
      if (visit("value", value, value_element(*this, sample.b, row, sample.m, d))) return true;
    }
  }
  const int64_t flat = sample.flat(*this);
  for (int axis = 0; axis < 2; ++axis) {
    if (visit("sampling_locations", sampling_locations, 2 * flat + axis)) return true;
  }
  if (visit("attention_weights", attention_weights, flat)) return true;
  for (int64_t d = 0; d < D; ++d) {
    if (visit("grad_output", grad_output, sample.grad_output_row(*this) + d)) return true;
  }
  return false;
}

bool MsdaCall::visit_stages(const ElementId& id, const Precision& precision, Cache& cache,
                            const VisitStage& visit) const {
  const auto show = [&](msda_stage_id stage, const std::vector<double>& numbers) {
    return visit(msda_stage_name(stage), numbers);
  };
  if (id.gradient.scattered()) {
    const PixelId pixel = pixel_of(id.flat);
    const auto contributions =
        static_cast<ContributionCache&>(cache).get(conventions, pixel.b, pixel.m, pixel.l, precision);
    const auto addends = computed_addends(*this, pixel, contributions->computed(pixel.s));
    if (show(MSDA_STAGE_VALUE_CONTRIBUTIONS, addends)) return true;
    double sum = 0;
    for (const double addend : addends) sum = rounded_to(sum + addend, arithmetic());
    return show(MSDA_STAGE_GRAD_VALUE, {sum});
  }
  const SampleId sample = sample_of(id.gradient, id.flat);
  const msda_stage_id last = id.gradient == MsdaGradient::kAttentionWeights ? MSDA_STAGE_GRAD_ATTENTION_WEIGHTS
                                                                            : MSDA_STAGE_GRAD_SAMPLING_LOCATIONS;
  for (int number = 0; number <= last; ++number) {
    const auto stage = static_cast<msda_stage_id>(number);
    if (stage == MSDA_STAGE_GRAD_ATTENTION_WEIGHTS && last != stage) continue;  // not on the way
    if (show(stage, stage_of_sample(*this, sample, stage, MSDA_MODE_DETERMINISTIC))) return true;
  }
  return false;
}

}  // namespace msda::analysis
