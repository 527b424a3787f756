// The addends of deformable attention's gradients: how kernels that are known add to grad_value, and what our kernels
// sum for a sample.
#include "analysis/operators/msda/call.h"
#include "kernels/sample.h"

namespace msda::analysis {
namespace {

// Returns a sample's addends in the arithmetic of Real, exactly those that kernels/cpu/loops.cpp sums.
template <class Real>
Addends sample_addends(const MsdaCall& call, const ElementId& id) {
  const int64_t sample = call.sample_of(id.gradient, id.flat);
  const int axis = call.axis_of(id.gradient, id.flat);
  const SampledImage image = call.image_of(call.family_of_sample(sample));
  const auto& [dialect, padding, align_corners] = call.conventions;
  const auto locate = [&](int along) {
    const Axis at = call.axis_at(sample, image, along);
    return kernels::locate(dialect, padding, align_corners, static_cast<Real>(at.location), at.size);
  };
  const auto x = locate(0), y = locate(1);
  Addends addends;
  if (!x.sampled || !y.sampled) return addends;
  int64_t pixels[4];
  kernels::corner_pixels(call.conventions, call.level_of(sample), y.low, x.low, pixels);
  const auto weights = kernels::corner_weights(y.fraction, x.fraction);
  for (int64_t d = 0; d < call.D; ++d) {
    const auto v = [&](size_t corner) {
      return pixels[corner] < 0
                 ? Real(0)
                 : static_cast<Real>(call.image.at(call.image_element(image.place_of(pixels[corner]), d)));
    };
    const Real factor = axis < 0    ? kernels::interpolate(weights, v(0), v(1), v(2), v(3))
                        : axis == 0 ? kernels::slope_across(v(0), v(1), v(2), v(3), y.fraction)
                                    : kernels::slope_across(v(0), v(2), v(1), v(3), x.fraction);
    const Real product = static_cast<Real>(call.grad_output.at(call.output_element(sample, d))) * factor;
    addends.values.push_back(static_cast<double>(product));
  }
  if (axis >= 0) addends.scale = call.factor_of(sample) * static_cast<double>(axis == 0 ? x.slope : y.slope);
  return addends;
}

}  // namespace

Addends MsdaCall::addends(const ElementId& id, Cache& cache) const {
  if (id.gradient.scattered()) return {image_addends(id.flat, cache), 1};
  return arithmetic() == MSDA_FLOAT64 ? sample_addends<double>(*this, id) : sample_addends<float>(*this, id);
}

std::vector<SharedFactor> MsdaCall::shared_factors() const {
  return {{"attention", SharedFactor::kOfSample}, {"wy", 1}, {"wx", 0}};
}

std::vector<FactorArithmetic> MsdaCall::factor_arithmetics() const {
  const bool aligned = conventions.align_corners, triton = conventions.dialect == MSDA_MSDA_TRITON;
  std::vector<FactorArithmetic> all;
  const auto add = [&](msda_dtype type) {
    // Compilers contract.
    if (aligned && triton) all.push_back({"fractions with fused multiply-adds", type, kFusedDifference});
    if (!aligned) all.push_back({"coordinates with fused multiply-adds", type, kContracted});
    all.push_back({"coordinates as written", type, kWritten});
  };
  add(arithmetic());
  if (arithmetic_of(image.dtype) != image.dtype) add(image.dtype);
  return all;
}

KnownAdditions MsdaCall::known(std::string_view kernel) const {
  KnownAdditions known;
  known.products = {"(grad_output*attention)*(wy*wx)"};
  known.is_exact = arithmetic_of(image.dtype) == image.dtype;
  if (kernel == "msda_cuda_backward") {
    known.one_at_a_time = false;
    known.text =
        "this project's kernels sum the samples of a cell in runs of up to 32 before they add them, except in short "
        "calls of mode atomic";
  } else if (kernel == "msda_backward") {
    known.one_at_a_time = false;
    known.text = "this project's operator on the CPU adds one addend at a time in mode atomic only";
  } else if (conventions.dialect == MSDA_MSDA_TRITON) {
    known.text = "msda-triton's kernel adds every addend by its own atomic addition";
    known.products = {"((grad_output*attention)*wy)*wx"};
  } else {
    known.text = "Deformable DETR's kernels add every addend by its own atomic addition";
  }
  return known;
}

}  // namespace msda::analysis
