// The backward pass of ROIAlign, torchvision's, mmcv's and Detectron2's alike: the gradient of feature maps that boxes
// were cut out of.
//
// After torchvision's roi_align_kernel.cu: a box [batch, x1, y1, x2, y2] is divided into bins, a bin into points in
// rows and columns, each of which reads four pixels; a bin is the mean of its points.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "analysis/operators/scatter/image.h"

namespace msda::analysis {

// Shapes fit each other, boxes are finite and of batches that there are, there are at most kMostPoints points, and
// take_sizes() has been called.
struct RoiAlignCall final : ImageScatterCall {
  double spatial_scale = 1;
  int64_t sampling_ratio = 0;  // points of a bin along each axis; 0: as many as it has pixels, rounded up
  bool aligned = false;        // pixel centres are half a pixel off, and boxes may be narrower than a pixel
  int64_t K = 0;
  int64_t sides[2] = {}, bins[2] = {};  // by axis: x, y
  Tensor input;                         // its shape; data if they were recorded, which nothing depends on
  Tensor boxes, grad_output;

  Index shape_of(Gradient) const override { return input.shape; }
  std::vector<NamedTensor> inputs() const override;

  const Tensor& source() const override { return grad_output; }
  int64_t source_of(int64_t sample) const override;
  int64_t sample_count() const override { return first_point_->back(); }
  std::vector<FactorArithmetic> factor_arithmetics() const override;
  KnownAdditions known(std::string_view kernel) const override;
  void send(int64_t sample, const FactorArithmetic& by, const VisitContribution& visit) const override;
  void send_exactly(int64_t source, const Precision& coordinates, int way, const VisitExact& visit) const override;
  int way_of(const Place& place) const override { return place.empty() ? 0 : place[0].region; }
  std::string target_text(int64_t target) const override;
  std::string sample_text(int64_t sample) const override;
  std::vector<Alternative> alternatives() const override;
  bool visit_inputs(const ElementId& id, const Place& place, const Precision& precision, Cache& cache,
                    const VisitInput& visit) const override;

  // If rounding decides how many points a box that reaches the pixel has, returns an axis without cells, whose landings
  // are the ways in which kernels compute that. The location is the length of that box's bins.
  Axes axes(const ElementId& id) const override;
  Landings landings(const Axis& axis, const Precision& precision) const override;
  std::vector<Evaluation> evaluations(const Axis& axis, msda_dtype arithmetic) const override;
  const char* jump_text() const override { return "a rounded length makes another number of points"; }
  const Help* jump_help() const override {
    static constexpr Help kHelp = {
        "set a fixed sampling_ratio: where bins are whole pixels, rounding decides how many points they have, which no "
        "tolerance covers:",
        "torchvision.ops.RoIAlign(output_size, spatial_scale, sampling_ratio=2)", false};
    return &kHelp;
  }

  bool admits(std::span<const OwnedTensor> inputs) const override;
  std::vector<Cut> cuts() const override;
  std::vector<int> cuts_of(std::string_view tensor) const override;
  std::shared_ptr<const Call> with_tensors(std::vector<Tensor> tensors) const override;

  // Boxes stay where they are.
  Slices slices(const CallSizes& sizes) const override;
  std::shared_ptr<const Call> with_values(std::span<const Tensor> inputs) const override;

  std::string operator_name() const override { return "roi_align"; }
  std::vector<Convention> convention_values() const override;
  std::string text_of_sizes() const override;

  // More points than this, in all, are not looked at: what is done for each of them would take minutes.
  static constexpr int64_t kMostPoints = int64_t{1} << 22;
  // Counts the points of all boxes, in whichever type makes most of a box: kernels and references may use any.
  // take_sizes() numbers the points, so the count must be checked before; it needs the bins alone.
  long double point_count() const;
  void take_sizes();
  // Points of one bin of each box along an axis, in a type; exact in float64.
  int64_t points_of(int64_t box, int axis, msda_dtype type) const;

 private:
  struct Bin {
    int64_t box, at[2];
  };
  Bin bin_of(int64_t source) const;
  int64_t bins_of_box() const { return bins[0] * bins[1]; }
  // The numbers of points in all boxes that come before a box; K + 1 of them.
  std::shared_ptr<const std::vector<int64_t>> first_point_ = std::make_shared<std::vector<int64_t>>(1, 0);
  // Boxes whose number of points depends on rounding, and for each way the first one that gives the same numbers.
  struct Ways;
  std::shared_ptr<const Ways> ways_;
  std::shared_ptr<const Ways> find_ways() const;
};

}  // namespace msda::analysis
