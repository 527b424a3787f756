// non_finite: an input that the element depends on, a stage on the way to it, or the result itself is NaN or infinite.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>

#include "analysis/causes/causes.h"
#include "analysis/stages.h"

namespace msda::analysis {
namespace {

struct FirstNonFinite {
  std::string where;  // "inputs/value", "stages/sampled_value", "outputs/grad_value"
  Index index;        // of the input's element; empty for a stage
  double value = 0;
  bool is_input = false;
  bool is_stage = false;
};

std::optional<FirstNonFinite> check_input(const char* name, const Tensor& tensor, int64_t flat) {
  const double value = tensor.at(flat);
  if (std::isfinite(value)) return std::nullopt;
  return FirstNonFinite{fmt::format("inputs/{}", name), tensor.index_of(flat), value, true};
}

// Inputs of a sample that its own gradients depend on.
std::optional<FirstNonFinite> check_sample_inputs(const Suspect& s, const SampleId& sample, const CornerRows& rows) {
  const Call& call = s.call;
  for (const int64_t row : rows) {
    for (int64_t d = 0; row >= 0 && d < call.D; ++d) {
      if (auto found = check_input("value", call.value, value_element(call, sample.b, row, sample.m, d))) return found;
    }
  }
  for (int axis = 0; axis < 2; ++axis) {
    if (auto found = check_input("sampling_locations", call.sampling_locations, 2 * sample.flat(call) + axis))
      return found;
  }
  if (auto found = check_input("attention_weights", call.attention_weights, sample.flat(call))) return found;
  for (int64_t d = 0; d < call.D; ++d) {
    if (auto found = check_input("grad_output", call.grad_output, sample.grad_output_row(call) + d)) return found;
  }
  return std::nullopt;
}

std::optional<FirstNonFinite> check_inputs(const Suspect& s) {
  const Call& call = s.call;
  if (!s.id.is_pixel()) {
    const Match& exact = s.of_observed.exact();
    const auto& level = call.levels[static_cast<size_t>(s.id.sample.l)];
    return check_sample_inputs(s, s.id.sample, corner_rows(s.observed.conventions, level, exact.x.low, exact.y.low));
  }
  const PixelId& pixel = s.id.pixel;
  for (const Side* side : {&s.observed, &s.expected}) {  // they may skip different samples of weight 0
    const auto precision = Precision::of(side->arithmetic_of(s.id.gradient));
    const auto contributions = s.cache.get(side->conventions, pixel.b, pixel.m, pixel.l, precision);
    for (const auto& addend : contributions->exact(pixel.s)) {
      const SampleId sample{pixel.b, addend.q, pixel.m, pixel.l, addend.p()};
      for (int axis = 0; axis < 2; ++axis) {
        const int64_t flat = 2 * sample.flat(call) + axis;
        if (auto found = check_input("sampling_locations", call.sampling_locations, flat)) return found;
      }
      if (auto found = check_input("attention_weights", call.attention_weights, sample.flat(call))) return found;
      const int64_t flat = sample.grad_output_row(call) + pixel.d;
      if (auto found = check_input("grad_output", call.grad_output, flat)) return found;
    }
  }
  return std::nullopt;
}

// Stages in the recorded precision.
std::optional<FirstNonFinite> check_stages(const Suspect& s) {
  const auto first_of = [](msda_stage_id stage, const std::vector<double>& values) -> std::optional<FirstNonFinite> {
    for (const double value : values) {
      if (!std::isfinite(value))
        return FirstNonFinite{fmt::format("stages/{}", msda_stage_name(stage)), {}, value, false, true};
    }
    return std::nullopt;
  };
  if (s.id.is_pixel()) {
    const PixelId& pixel = s.id.pixel;
    const auto precision = Precision::of(s.observed.arithmetic_of(s.id.gradient));
    const auto contributions = s.cache.get(s.observed.conventions, pixel.b, pixel.m, pixel.l, precision);
    const auto addends = computed_addends(s.call, pixel, contributions->computed(pixel.s));
    if (auto found = first_of(MSDA_STAGE_VALUE_CONTRIBUTIONS, addends)) return found;
    double sum = 0;
    for (const double addend : addends) sum = rounded_to(sum + addend, s.call.arithmetic());
    return first_of(MSDA_STAGE_GRAD_VALUE, {sum});
  }
  const msda_stage_id last = s.id.gradient == Gradient::kAttentionWeights ? MSDA_STAGE_GRAD_ATTENTION_WEIGHTS
                                                                          : MSDA_STAGE_GRAD_SAMPLING_LOCATIONS;
  for (int stage = 0; stage <= last; ++stage) {
    const auto id = static_cast<msda_stage_id>(stage);
    if (id == MSDA_STAGE_GRAD_ATTENTION_WEIGHTS && last != id) continue;  // not on the way
    const auto values = stage_of_sample(s.call, s.observed.conventions, s.id.sample, id, MSDA_MODE_DETERMINISTIC);
    if (auto found = first_of(id, values)) return found;
  }
  return std::nullopt;
}

// Whether a side's value that is not finite is what its type makes of the exact gradient.
bool overflows(const Suspect& s, const Side& side, double value) {
  return !(value * s.float64 < 0) && !std::isfinite(rounded_to(s.float64, side.of(s.id.gradient).dtype));
}

AtFault fault_of(const Suspect& s, const FirstNonFinite& first) {
  const bool observed = !std::isfinite(s.observed_value), expected = !std::isfinite(s.expected_value);
  const bool truth = !std::isfinite(s.float64);
  if (first.is_input || truth) {
    // Whoever is finite where exact arithmetic is not hides what the input is. The reverse is no fault: 0 * infinity is
    // NaN for a kernel that multiplies by a zero weight, and nothing for one that skips it or that rounding lands in
    // the neighbouring cell.
    if (truth && !observed && !s.of_observed.explained()) return AtFault::kObserved;
    if (truth && !expected && !s.of_expected.explained()) return AtFault::kReference;
    return AtFault::kNone;
  }
  if (!observed) {
    if (!overflows(s, s.expected, s.expected_value)) return AtFault::kReference;
    return s.of_observed.explained() ? AtFault::kTolerance : AtFault::kObserved;
  }
  if (overflows(s, s.observed, s.observed_value)) return AtFault::kTolerance;
  // In stages of the recorded precision any kernel may overflow; what it makes up of finite stages is its own mistake.
  return first.is_stage && !s.any_holds ? AtFault::kTolerance : AtFault::kObserved;
}

}  // namespace

std::optional<Diagnosis> test_non_finite(const Suspect& s) {
  // An input that is not finite, and that neither side nor exact arithmetic reads, excuses nobody: the dialects skip a
  // sample whose location is NaN.
  if (std::isfinite(s.observed_value) && std::isfinite(s.expected_value) && std::isfinite(s.float64)) {
    return std::nullopt;
  }
  const Tensor& stored = s.observed.of(s.id.gradient);
  std::optional<FirstNonFinite> first = check_inputs(s);
  if (!first && s.before && !std::isfinite(*s.before)) {
    first = FirstNonFinite{fmt::format("outputs_before/{}", name_of(s.id.gradient)), s.id.index, *s.before, false};
  }
  if (!first) first = check_stages(s);
  bool overflow = false;
  if (!first && !std::isfinite(rounded_to(s.float64, stored.dtype)) && std::isfinite(s.float64)) {
    overflow = true;
    first = FirstNonFinite{fmt::format("outputs/{}", name_of(s.id.gradient)), s.id.index,
                           rounded_to(s.float64, stored.dtype), false};
  }
  if (!first) {
    const bool observed = !std::isfinite(s.observed_value);
    first = FirstNonFinite{
        fmt::format("{}/{}", observed ? "outputs" : "results/" + s.expected.name, name_of(s.id.gradient)), s.id.index,
        observed ? s.observed_value : s.expected_value, false};
  }
  Diagnosis diagnosis{Cause::kNonFinite, fault_of(s, *first)};
  if (!s.tells) return diagnosis;
  diagnosis.evidence["first"] = first->where;
  if (!first->index.empty()) diagnosis.evidence["first_index"] = first->index;
  diagnosis.evidence["first_value"] = number(first->value);
  diagnosis.evidence["largest_of_type"] = Precision::of(stored.dtype).largest;
  const std::string at = first->index.empty() ? "" : fmt::format("[{}]", fmt::join(first->index, ","));
  if (overflow) {
    diagnosis.why = fmt::format(
        "{:.9g} does not fit into {}, whose largest number is {:g}: scale the loss, or keep this gradient "
        "in a wider type",
        s.float64, msda_dtype_name(stored.dtype), Precision::of(stored.dtype).largest);
  } else {
    diagnosis.why =
        fmt::format("the first that is not finite on the way here is {}{} = {}", first->where, at, first->value);
    if (first->where.starts_with("outputs/")) {
      diagnosis.why += ": the inputs, the stages and float64 are finite, the kernel made it up";
    }
  }
  return diagnosis;
}

}  // namespace msda::analysis
