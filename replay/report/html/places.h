// Where elements of gradients lie in the images that an operator reads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/judge/analyze.h"
#include "analysis/model/stages.h"
#include "replay/report/html/pictures.h"

namespace msda::replay {

// An image as it is drawn; of a volume the first plane, on which the others lie.
struct ImagePlace {
  std::string title;
  int64_t rows, columns;
};

struct PlaceInImage {
  size_t image;
  int64_t row, column;
};

class Places {
 public:
  Places(const analysis::Call& call, int threads);

  // Returns none if the operator does not say where its samples and pixels lie.
  const std::vector<ImagePlace>& images() const { return images_; }
  // Returns the place of an element of a scattered gradient.
  std::optional<PlaceInImage> of_pixel(analysis::Gradient gradient, int64_t flat) const;
  // Calls visit(first, count) for parts of all samples; meanwhile of_sample() answers for those.
  void for_each_part(const std::function<void(int64_t, int64_t)>& visit);
  // Returns where the sample of element `flat` of a gradient of samples landed, at the edge if that is outside.
  std::optional<PlaceInImage> of_sample(analysis::Gradient gradient, int64_t flat, int64_t sample) const;

 private:
  std::optional<analysis::Dimension> dimension(std::string_view name) const;

  const analysis::Call& call_;
  int threads_;
  std::vector<ImagePlace> images_;
  std::vector<int64_t> first_pixel_;  // of each image, among all pixels
  std::optional<analysis::Dimension> pixel_, level_;
  std::optional<analysis::Intermediate> coordinates_;
  int64_t first_sample_ = 0;
  std::vector<double> part_;  // pixel coordinates of the samples from there on
};

// Finds what a drawing of a finding shows. The material must outlive it.
class Viewer {
 public:
  explicit Viewer(const analysis::Material& material);

  SampleView sample_of(const analysis::Finding& finding) const;
  std::optional<PixelView> pixel_of(const analysis::Finding& finding) const;

 private:
  const analysis::Side* side_of(const std::string& name) const;

  const analysis::Material& material_;
  Places places_;
  std::unique_ptr<analysis::Cache> cache_;
};

}  // namespace msda::replay
