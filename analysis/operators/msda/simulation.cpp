// Simulated calls of deformable attention: a slice is one head of one batch.
#include <fmt/format.h>

#include <stdexcept>

#include "analysis/operators/msda/call.h"
#include "analysis/operators/msda/loops.h"
#include "analysis/operators/msda/screen.h"
#include "kernels/names.h"
#include "kernels/sample.h"

namespace msda::analysis {
namespace {

// The most samples that a simulated call may have: what a machine's memory holds of one.
constexpr int64_t kMostElements = int64_t{1} << 31;

}  // namespace

Slices MsdaCall::slices(const CallSizes& sizes) const {
  const int64_t batches = sizes.batch.value_or(B), heads = sizes.heads.value_or(M);
  auto slice = std::make_shared<MsdaCall>(*this);
  slice->B = slice->M = 1;
  slice->Q = sizes.queries.value_or(Q);
  const int64_t samples = std::max<int64_t>(1, L * P);
  if (slice->Q > kMostElements / samples / std::max<int64_t>(2, D)) {
    throw std::invalid_argument(fmt::format("{} queries are too many to simulate", slice->Q));
  }
  const auto shaped = [](const Tensor& like, Index shape) { return Tensor{nullptr, like.dtype, std::move(shape)}; };
  slice->image = shaped(image, {1, S, 1, D});
  slice->locations = shaped(locations, {1, slice->Q, 1, L, P, 2});
  slice->factors = shaped(factors, {1, slice->Q, 1, L, P});
  slice->grad_output = shaped(grad_output, {1, slice->Q, 1, D});
  return {batches * heads, slice};
}

std::vector<int64_t> MsdaCall::normalized_together(size_t input) const {
  constexpr size_t kAttention = 2;
  if (input != kAttention) return {};
  return {P, L * P};
}

std::vector<Arithmetic> MsdaCall::arithmetics() const {
  std::vector<Arithmetic> all{{"float64", MSDA_MODE_FLOAT64}};
  for (const msda_dialect dialect : {MSDA_GRID_SAMPLE, MSDA_MSDA_TRITON, MSDA_DEFORMABLE_DETR}) {
    if (dialect == MSDA_DEFORMABLE_DETR && (conventions.padding != MSDA_PADDING_ZEROS || conventions.align_corners))
      continue;
    all.push_back({msda_dialect_name(dialect), MSDA_MODE_DETERMINISTIC, true, in_dialect(dialect)});
  }
  return all;
}

bool MsdaCall::contracts(const Arithmetic& by) const {
  return by.contracted && by.mode != MSDA_MODE_FLOAT64 && arithmetic() == MSDA_FLOAT32;
}

// Returns the sums of kernels/cpu/loops.cpp, at a contracted coordinate.
double MsdaCall::value_in(const Arithmetic& by, Gradient gradient, int64_t flat) const {
  if (!contracts(by)) return Call::value_in(by, gradient, flat);
  const auto& [dialect, padding, align_corners] = conventions;
  const int64_t sample = sample_of(gradient, flat);
  const SampledImage read_image = image_of(family_of_sample(sample));
  const auto locate = [&](int axis) {
    const Axis at = axis_at(sample, read_image, axis);
    return kernels::locate_contracted(dialect, padding, align_corners, static_cast<float>(at.location), at.size);
  };
  const auto x = locate(0), y = locate(1);
  if (!x.sampled || !y.sampled) return 0;
  int64_t pixels[4];
  kernels::corner_pixels(conventions, level_of(sample), y.low, x.low, pixels);
  // Widened once: the loops take float32.
  std::array<std::vector<float>, 5> widened;
  const auto all_channels = [&](const Tensor& tensor, int64_t first, std::vector<float>& memory) {
    if (tensor.dtype == MSDA_FLOAT32) return static_cast<const float*>(tensor.data) + first;
    for (int64_t d = 0; d < D; ++d) memory.push_back(static_cast<float>(tensor.at(first + d)));
    return static_cast<const float*>(memory.data());
  };
  SampleRows read{};
  for (size_t corner = 0; corner < 4; ++corner) {
    if (pixels[corner] < 0) continue;
    const int64_t first = image_element(read_image.place_of(pixels[corner]), 0);
    read.corner[corner] = all_channels(image, first, widened[corner]);
  }
  read.grad_output = all_channels(grad_output, output_element(sample, 0), widened[4]);
  read.channels = D;
  const auto sums = screen_loops().channel_totals(read, y.fraction, x.fraction);
  float result = sums.attention;
  if (const int axis = axis_of(gradient, flat); axis >= 0) {
    result = kernels::location_gradient(axis == 0 ? sums.x : sums.y, static_cast<float>(factor_of(sample)),
                                        axis == 0 ? x.slope : y.slope);
  }
  return rounded_to(static_cast<double>(result), image.dtype);
}

std::unique_ptr<Screen> MsdaCall::screen(const Arithmetic& observed, const Arithmetic& expected) const {
  for (const Tensor* tensor : {&image, &locations, &factors, &grad_output}) {
    if (tensor->dtype != MSDA_FLOAT32) return nullptr;
  }
  const auto with_conventions = [&](const Arithmetic& by) -> MsdaScreen::Arithmetic {
    return {static_cast<const MsdaCall&>(by.version_of(*this)).conventions, by.mode, by.contracted};
  };
  return std::make_unique<MsdaScreen>(with_conventions(observed), with_conventions(expected));
}

}  // namespace msda::analysis
