// The samples that reach each pixel of an image, found at the first request.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "analysis/numbers/rounding.h"
#include "analysis/operators/sampling/call.h"

namespace msda::analysis {

// The contributions of one family, under a call's conventions.
class Contributions {
 public:
  // Small, as there are many of each sample.
  struct Addend {
    uint64_t packed;  // as pack() has them
    double weight;
    double weight_error;  // bound on the effect of the coordinates' errors and of evaluating it; 0 for computed addends

    // `tap`: its number among those that the sample reads; `is_signed`: those of the weights along the axes leave no
    // sign open, whatever the error.
    static uint64_t pack(int64_t sample, size_t tap, bool is_signed) {
      return static_cast<uint64_t>(sample) << 8 | tap << 1 | (is_signed ? 1 : 0);
    }
    int64_t sample() const { return static_cast<int64_t>(packed >> 8); }  // of the call
    size_t tap() const { return packed >> 1 & 127; }
    bool is_signed() const { return (packed & 1) != 0; }
  };
  // A narrowing may round the locations; what else it does is done for each element.
  Contributions(const SamplingCall& call, int64_t family, const Precision& precision, const Narrowing* narrowing);

  // Returns addends with exact weights in the order of the samples, and with weight 0 and its error for samples that
  // only rounding brings here.
  std::span<const Addend> exact(int64_t pixel) const { return exact_.at(pixel); }
  // Returns what samples that rounding may carry anywhere may add to any pixel of a channel. One sum for all pixels: in
  // 16 bits they may be a large part of all samples.
  SumBound from_anywhere(int64_t channel) const {
    return from_anywhere_.empty() ? SumBound() : from_anywhere_[static_cast<size_t>(channel)];
  }
  // Returns the largest magnitude in the image, if there are such samples.
  double largest_input() const { return largest_input_; }
  // Returns addends as our kernels compute them in the arithmetic of the same call, computed once. Thread-safe.
  std::span<const Addend> computed(const SamplingCall& call, int64_t pixel) const;

 private:
  struct Found {
    int64_t pixel;
    Addend addend;
  };
  class ByPixel {
   public:
    // Stable: keeps the order of a pixel's addends.
    void sort(const std::vector<Found>& found, int64_t pixels);
    std::span<const Addend> at(int64_t pixel) const {
      const auto i = static_cast<size_t>(pixel);
      return {addends_.data() + begin_[i], addends_.data() + begin_[i + 1]};
    }

   private:
    std::vector<Addend> addends_;
    std::vector<int64_t> begin_;  // of each pixel's addends, and the end
  };
  void add_sample(const SamplingCall& call, int64_t sample, const std::vector<Landings>& along, double rounding,
                  std::vector<Found>& found);
  void add_from_anywhere(const SamplingCall& call, int64_t sample);

  int64_t family_;
  SampledImage image_;
  ByPixel exact_;
  std::vector<SumBound> from_anywhere_;  // by channel; empty: none
  double largest_input_ = 0;
  mutable ByPixel computed_;
  mutable std::once_flag computed_found_;
};

// Keeps contributions by conventions and family. Forgets the least recently used ones beyond a limit of memory, which
// all threads share. Thread-safe.
class SamplingCache final : public Cache {
 public:
  std::shared_ptr<const Contributions> get(const SamplingCall& call, int64_t family, const Precision& precision,
                                           const Narrowing* narrowing);

 private:
  using Key = std::array<int64_t, 4>;
  struct Slot {
    std::once_flag found;
    std::shared_ptr<const Contributions> contributions;
  };
  std::shared_ptr<Slot> slot(const Key& key, int64_t samples);

  std::mutex mutex_;
  std::vector<std::pair<Key, std::shared_ptr<Slot>>> slots_;  // the most recently used is last
};

}  // namespace msda::analysis
