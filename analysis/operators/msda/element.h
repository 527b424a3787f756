// The elements of deformable attention's gradients.
//
// grad_attention_weights and grad_sampling_locations sum 4*D terms, one for each channel and corner of one sample;
// grad_value sums a term for each sample corner that reaches the pixel.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "analysis/operators/msda/call.h"
#include "analysis/operators/msda/landing.h"

namespace msda::analysis {

// The rows of `value` that the corners of a cell read, -1 for zero: pixels of the whole pyramid.
using CornerRows = std::array<int64_t, 4>;
CornerRows corner_rows(const Conventions& conventions, const LevelSize& level, int32_t low_x, int32_t low_y);

// Returns a sample's gradients with the cells in which it landed; `rows` are those of the cells, or others, to compute
// what a fault would give. With a narrowing: the value that it gives, and the bound on what all other rounding does to
// that.
Element sample_element(const MsdaCall& call, const SampleId& sample, Gradient gradient, int axis, const Landing& x,
                       const Landing& y, const CornerRows& rows, const Precision& precision,
                       const Narrowing* narrowing = nullptr);
Element sample_element(const MsdaCall& call, const SampleId& sample, Gradient gradient, int axis, const Landing& x,
                       const Landing& y, const Precision& precision, const Narrowing* narrowing = nullptr);

// The samples that reach each pixel of one batch, head and level, with one set of conventions.
class Contributions {
 public:
  // Small, as there are four of each sample.
  struct Addend {
    int32_t q;            // query
    int32_t p_corner;     // 4 * point + corner
    double weight;        // of the corner
    double weight_error;  // bound on the effect of the coordinates' errors; 0 for computed addends

    int32_t p() const { return p_corner / 4; }
    int32_t corner() const { return p_corner % 4; }
  };
  // Throws std::length_error for more queries or points than an addend can name. A narrowing may
  // round the locations; what else it does is done in pixel_element().
  Contributions(const MsdaCall& call, const Conventions& conventions, int64_t b, int64_t m, int64_t l,
                const Precision& precision, const Narrowing* narrowing = nullptr);

  // Returns addends with exact weights, in the order of (q, p, corner). A sample that can only land here through
  // rounding is included, with weight 0 and its error.
  std::span<const Addend> exact(int64_t s) const;
  // Returns addends as kernels/sample.h computes them in the call's arithmetic, computed once. Thread-safe.
  std::span<const Addend> computed(int64_t s) const;

 private:
  struct Found {
    int64_t s;  // pixel of the whole pyramid
    Addend addend;
  };
  // Addends by pixel of the level.
  class ByPixel {
   public:
    // Stable: keeps the order of a pixel's addends.
    void sort(const std::vector<Found>& found, const LevelSize& level);
    std::span<const Addend> of(int64_t s) const;

   private:
    std::vector<Addend> addends_;
    std::vector<int64_t> begin_;  // of each pixel's addends, and the end
    int64_t start_ = 0;           // the first pixel
  };

  void find_exact(const Precision& precision, const Narrowing* narrowing);
  void find_computed() const;
  const LevelSize& level() const { return call_->levels[static_cast<size_t>(l_)]; }

  const MsdaCall* call_;
  Conventions conventions_;
  int64_t b_, m_, l_;
  ByPixel exact_;
  mutable ByPixel computed_;
  mutable std::once_flag computed_found_;
};

// Contributions of a call by (conventions, b, m, l), computed at the first request. Forgets the least recently used
// ones beyond a limit of memory, which all threads share. Thread-safe.
class ContributionCache final : public Cache {
 public:
  explicit ContributionCache(const MsdaCall& call) : call_(&call) {}
  std::shared_ptr<const Contributions> get(const Conventions& conventions, int64_t b, int64_t m, int64_t l,
                                           const Precision& precision, const Narrowing* narrowing = nullptr);

 private:
  using Key = std::array<int64_t, 8>;
  struct Slot {
    std::once_flag found;
    std::shared_ptr<const Contributions> contributions;
  };
  std::shared_ptr<Slot> slot(const Key& key);

  const MsdaCall* call_;
  std::mutex mutex_;
  std::vector<std::pair<Key, std::shared_ptr<Slot>>> slots_;  // the most recently used is last
};

Element pixel_element(const MsdaCall& call, const PixelId& pixel, std::span<const Contributions::Addend> exact,
                      const Precision& precision, const Narrowing* narrowing = nullptr);

// Returns the addends of a sample's gradient in the call's own arithmetic: a product for each channel.
Addends sample_addends(const MsdaCall& call, const SampleId& sample, Gradient gradient, int axis);

// Returns the addends of an element as a kernel computes them in the call's own arithmetic.
std::vector<double> computed_addends(const MsdaCall& call, const PixelId& pixel,
                                     std::span<const Contributions::Addend> computed);

}  // namespace msda::analysis
