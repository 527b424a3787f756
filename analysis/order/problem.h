// One group of elements of a scattered gradient that received the same samples' addends: all channels of a pixel.
// Whoever adds to one of them adds to all, so that their recorded words are several hashes of one order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/msda.h"

namespace msda::analysis {

// In what type a kernel adds, and in what type the result is stored: a result of 16 bits may have been added up in
// float32 and rounded at the end.
struct SumType {
  msda_dtype sum = MSDA_FLOAT32;
  msda_dtype stored = MSDA_FLOAT32;
  // In float32: whether an addition takes subnormal operands, and gives a subnormal sum, as zero of their sign. A GPU's
  // atomic additions to global memory do; those of float64 and 16 bits keep them. In registers and in shared memory the
  // kernel's compiler decides (nvcc's -ftz).
  bool flushes = false;

  friend bool operator==(const SumType&, const SumType&) = default;
};

struct OrderProblem {
  SumType type;
  size_t channels = 0;
  std::vector<double> addends;   // [addend][channel], values of type.sum; in the order of the samples
  std::vector<double> start;     // by channel: what the buffer held before
  std::vector<double> recorded;  // by channel: values of type.stored

  size_t size() const { return channels == 0 ? 0 : addends.size() / channels; }  // addends
  std::span<const double> addend(size_t i) const { return {addends.data() + i * channels, channels}; }

  // Returns the same without addend i, with addend i twice (the second time last), and with some of the channels.
  OrderProblem without(size_t i) const;
  OrderProblem twice(size_t i) const;
  OrderProblem part(std::span<const size_t> of_channels) const;
};

// Numbers of addends.
using Order = std::vector<uint32_t>;

// Returns the sums, by channel, that adding in an order gives; of type.stored.
std::vector<double> fold(const OrderProblem& problem, const Order& order);
// Returns how many channels have the recorded bits then.
size_t channels_that_fit(const OrderProblem& problem, const Order& order);

// The range of sums of type.sum that are stored as the recorded value, one for each channel.
struct OrderTarget {
  double lowest, highest;
};
std::vector<OrderTarget> targets_of(const OrderProblem& problem);

// Returns whether additions of float32 may meet subnormal numbers, so that sums that flush them and those that keep
// them differ.
bool may_flush(const OrderProblem& problem);

// Returns whether rounding in any order whatever could give the recorded values: the distance from the exact sum is
// within the bound (n additions, each by half a unit of a partial sum's magnitude). False is a proof that no order
// does.
bool any_order_may_fit(const OrderProblem& problem);

}  // namespace msda::analysis
