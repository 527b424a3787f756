// The backward pass of PyTorch's interpolate: the gradient of an image that was resized, in 1 to 3 dimensions.
//
// After aten/src/ATen/native/UpSample.h: the index of an output pixel along an axis becomes a coordinate in the image
// by the ratio of the sizes, or by the scale factor that was given; of it come the pixels that the output pixel was
// made of, and their weights. Modes linear, bilinear and trilinear are one here, of as many axes as there are.
#pragma once

#include <boost/container/static_vector.hpp>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/operators/scatter/image.h"

namespace msda::analysis {

enum class ResizeMode { kNearest, kNearestExact, kLinear, kCubic };

// The sizes and the factor of one axis of an image that is resized.
struct Resized {
  int64_t in = 1, out = 1;
  double scale = 0;  // the factor that was given; 0: none, it follows from the sizes
};

// What an output pixel reads along an axis.
struct ResizeTap {
  int64_t pixel;
  double weight, error;  // the bound on what rounding does to it

  bool is_signed() const { return std::abs(weight) > error; }
};
using ResizeTaps = boost::container::static_vector<ResizeTap, 6>;

// The output pixels that read a pixel along an axis, of mode nearest: first <= i < end.
struct Readers {
  int64_t first, end;
  bool operator==(const Readers&) const = default;
};

// The shape of grad_output fits; take_sizes() has been called.
struct InterpolateCall final : ImageScatterCall {
  // How a coordinate is computed, or which output pixels are a pixel's: as PyTorch's kernels for CPUs write it, with a
  // fused multiply-add, by the inverse of the ratio as those for GPUs do in mode nearest, or without rounding.
  enum Variant : int { kWritten, kContracted, kInverse, kUnrounded };
  // The variants that mode nearest may use, the exact one first.
  static constexpr Variant kNearestVariants[] = {kUnrounded, kWritten, kInverse};

  ResizeMode mode = ResizeMode::kLinear;
  bool align_corners = false;
  int axes_count = 2;
  Resized sides[3];  // by axis: x, y, z
  // Mode nearest: the output pixels beyond the image times the scale factor are added to none.
  bool is_for_gpu = false;
  Tensor grad_output;

  bool is_nearest() const { return mode == ResizeMode::kNearest || mode == ResizeMode::kNearestExact; }

  Index shape_of(Gradient) const override;
  std::vector<NamedTensor> inputs() const override { return {{"grad_output", grad_output}}; }

  const Tensor& source() const override { return grad_output; }
  std::vector<FactorArithmetic> factor_arithmetics() const override;
  KnownAdditions known(std::string_view kernel) const override;
  double start(int64_t, double before) const override { return is_nearest() ? 0 : before; }  // nearest overwrites
  FactorArithmetic exact_arithmetic() const override;
  void send(int64_t sample, const FactorArithmetic& by, const VisitContribution& visit) const override;
  void send_exactly(int64_t source, const Precision& coordinates, int way, const VisitExact& visit) const override;
  Precision coordinate_precision(const Precision& rest) const override;
  bool weights_change_sign() const override { return mode == ResizeMode::kCubic; }
  std::string target_text(int64_t target) const override;
  std::string sample_text(int64_t sample) const override;
  std::vector<Alternative> alternatives() const override;

  // In mode nearest an element has an axis for each of the image's: each of kNearestVariants may add up other output
  // pixels. The location is its pixel.
  Axes axes(const ElementId& id) const override;
  Coordinate coordinate(const Axis& axis, const Precision& precision) const override;
  Landings landings(const Axis& axis, const Precision& precision) const override;
  std::vector<Evaluation> evaluations(const Axis& axis, msda_dtype arithmetic) const override;
  void terms(const ElementId& id, const Place& place, const Precisions& precisions, Cache& cache,
             const VisitTerm& visit) const override;

  std::vector<Cut> cuts() const override { return {{"batch", "N", N}, {"channel", "C", C}}; }
  std::vector<int> cuts_of(std::string_view tensor) const override;
  std::shared_ptr<const Call> with_tensors(std::vector<Tensor> tensors) const override;
  Slices slices(const CallSizes& sizes) const override;

  std::string operator_name() const override { return "interpolate"; }
  std::vector<Convention> convention_values() const override;
  std::string text_of_sizes() const override;

  // From grad_output and `sides`.
  void take_sizes();
  // What is known of grad_input, each of which may be without data: what the kernel left, what the buffer held before,
  // and the result that it was compared with.
  struct Known {
    Tensor recorded, before, reference;
  };
  // Returns the same with those scale factors alone that the kernel used. If its name is not known, they are those of
  // the kernel for a CPU, for a GPU, or another, whose results one of the gradients looks like, or what the kernel
  // added to the buffer; all of them if it looks like none.
  std::shared_ptr<const InterpolateCall> with_heeded_scales(std::string_view kernel, const Known& known) const;
  const char* mode_name() const;

  // --- Along one axis.
  // The coordinate of an output pixel, with a bound on its rounding.
  Coordinate coordinate_of(const Resized& side, int64_t output, const Precision& precision) const;
  // Rounded as kernels compute it: to a type, of mode nearest to float32.
  double computed_coordinate(const Resized& side, int64_t output, const FactorArithmetic& by) const;
  // In mode nearest, returns the pixel that an output pixel is added to; none where kernels for GPUs leave it out.
  std::optional<int64_t> nearest_pixel(const Resized& side, int64_t output, Variant by) const;
  // In mode nearest, returns the first output pixel that is not before a boundary.
  int64_t end_of(const Resized& side, int64_t boundary, Variant by) const;
  // In mode nearest, returns end_of() the last pixel, without rounding.
  int64_t last_end(const Resized& side) const;
  // Returns the same before it is rounded up, as kernels for GPUs compute it: by the inverse of the ratio.
  float begin_by_inverse(const Resized& side, int64_t boundary) const;
  // In mode nearest, returns the output pixels that read a pixel.
  Readers readers(const Resized& side, int64_t pixel, Variant by) const;
  // Returns the taps of a coordinate that may be off by `error`; more pixels where rounding may land it in the next
  // cell.
  ResizeTaps taps(const Resized& side, double coordinate, double error, double unit) const;
  // In mode nearest, returns the pixel in exact arithmetic, and those of the other variants.
  ResizeTaps nearest_taps(const Resized& side, int64_t output) const;

 private:
  std::vector<std::string> corner_names() const;
  // Computes the coordinate in mode nearest, for variants that begin with the output pixel.
  double forward_coordinate(const Resized& side, int64_t output, Variant by) const;
  // Computes end_of() as kernels for GPUs do.
  int64_t end_by_inverse(const Resized& side, int64_t boundary) const;
};

std::optional<ResizeMode> resize_mode_named(std::string_view name, int axes);

}  // namespace msda::analysis
