// What an operator says of the additions to a scattered gradient: which elements receive them together, the factors of
// each addend, and how kernels that are known multiply and add them. From this the order of the additions is read back
// from a recorded result (analysis/order/).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/numbers/addends.h"
#include "kernels/msda.h"

namespace msda::analysis {

// Besides the factor that differs from channel to channel.
inline constexpr size_t kMostSharedFactors = 3;

// An addend of all channels of a target: of the elements of a gradient that add up the same samples with the same
// weights.
struct SharedAddend {
  int64_t target;                                  // Call::weights_of() of the elements
  int64_t sample;                                  // numbered as for Call::numbers_of()
  int32_t corner;                                  // which of the sample's: a corner, a tap
  std::array<double, kMostSharedFactors> factors;  // by Additions::factor_names(), without the first
};

// How the factors that all channels share are computed.
struct FactorArithmetic {
  std::string name;  // "coordinates as written"
  msda_dtype type;   // of every operation
  int variant;       // the operator's own number
};

// What is known of a kernel.
struct KnownAdditions {
  bool one_at_a_time = true;
  // Its arithmetic is known to the last bit: where some pixels are not explained by it, they are at fault, not it.
  bool is_exact = false;
  // Other threads add to one channel than to the next, so that each channel may have an order of its own.
  bool channels_apart = false;
  std::string text;  // who adds how: "msda-triton's kernel adds each addend by its own atomic addition"
  std::vector<std::string>
      products;  // as product_names() has them, the likeliest first: "((grad_output*attention)*wy)*wx"
};

class Additions {
 public:
  virtual ~Additions() = default;

  // Returns the factors of an addend: first the one that differs from channel to channel.
  virtual std::vector<std::string> factor_names() const = 0;
  // Ways to compute the shared factors, the likeliest first.
  virtual std::vector<FactorArithmetic> factor_arithmetics() const = 0;
  // Returns what is known of the kernel that a capture names; `kernel` may be empty.
  virtual KnownAdditions known(std::string_view kernel) const = 0;

  // Families (Call::family_of()) that there are, and the addends of one, sorted by target, then by sample and corner.
  virtual int64_t family_count() const = 0;
  virtual std::vector<SharedAddend> shared_addends(int64_t family, const FactorArithmetic& arithmetic) const = 0;
  // Returns the elements of a target: places in the gradient, by channel.
  virtual std::vector<int64_t> elements_of(int64_t target) const = 0;
  // The first factor of a sample's addends, by channel.
  virtual void channel_factors(int64_t sample, std::span<double> factors) const = 0;

  // Returns a sample's place in the order in which a launch numbers what runs in parallel: its query, or itself.
  virtual int64_t launch_index(int64_t sample) const = 0;
  virtual const char* launch_index_name() const = 0;  // "query"
  // "query 3, point 1, corner y0,x1"
  virtual std::string addend_name(const SharedAddend& addend) const = 0;

  // Returns whether an addend is divided by the last of its factors.
  virtual bool last_divides() const { return false; }
  // Returns what an element's sum begins with, if the buffer held this before the launch.
  virtual double start(int64_t /*flat*/, double before) const { return before; }
};

// Returns whether the kernel's name is that of an operator, "aten::index_put": recorded from Python, its call may have
// run on a CPU or a GPU, in one thread or in many.
inline bool is_operator_of_pytorch(std::string_view kernel) {
  return kernel.starts_with("aten::") || kernel.starts_with("torchvision::");
}

// Returns what is known of the kernel.
inline KnownAdditions known_additions(const Additions& additions, std::string_view kernel) {
  KnownAdditions known = additions.known(kernel);
  if (is_operator_of_pytorch(kernel))
    known.text = "recorded as an operator of PyTorch's: which threads add what is not known";
  return known;
}

}  // namespace msda::analysis
