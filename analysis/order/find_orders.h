// The order of the additions to a scattered gradient, read back from the recorded bits, for all of its pixels.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/model/call.h"
#include "analysis/order/products.h"
#include "analysis/order/search.h"

namespace msda::analysis {

// How a kernel computes and sums the addends.
struct AdditionArithmetic {
  FactorArithmetic factors;
  Product product;
  SumType sums;
  // How many of the probes (pixels with few additions) this arithmetic explains, and how many there are.
  int64_t fits = 0, tried = 0;
  int64_t whole = 0;   // of those that fit, the ones of which all channels have one order
  bool found = false;  // it explains enough of them to go by
};

// An addend that was lost or added twice: with it dropped or doubled, an order gives the recorded bits.
struct AddendFault {
  bool doubled = false;
  uint32_t addend = 0;
  std::string name;
};

// Channels that received their addends in one order.
struct OrderPart {
  std::vector<size_t> channels;
  Order order;
};

// All channels of one pixel.
struct TargetOrder {
  int64_t target = 0;  // Call::weights_of() of its elements
  size_t addends = 0;
  OrderResult result;
  std::vector<AddendFault> faults;  // if no order is possible: each of them would explain the bits
  std::vector<OrderPart> parts;     // if no single order is possible, but one for each part; else empty
  bool finite = true;
  std::vector<int64_t> launch_indices;  // of the addends, in the order of the samples
};

// A pixel's pairs of additions whose indices are so far apart, and how many came in the order opposite to the indices.
struct InversionBin {
  int64_t nearest = 0, farthest = 0;  // distances, both included
  int64_t pairs = 0, inverted = 0;
  double share() const { return pairs == 0 ? 0 : static_cast<double>(inverted) / static_cast<double>(pairs); }
};

struct OrderSettings {
  SearchLimits limits;       // of each pixel; `until` is set from the two below
  double seconds_each = 10;  // for a pixel
  double seconds = 25;       // for all pixels with more additions than are searched through
  int threads = 0;
  bool faults = true;  // try dropped and doubled addends
};

struct OrderCounts {
  int64_t elements = 0;  // pixels with at least one addition, by batch and head
  int64_t with_1_to_15 = 0, explained_to_15 = 0, in_parts_to_15 = 0;
  int64_t explained = 0, unique = 0, impossible = 0, in_parts = 0, not_found = 0;
  int64_t lost = 0, doubled = 0;  // impossible ones that a lost or a doubled addend would explain
  int64_t not_finite = 0, out_of_time = 0;
};

struct OrderReport {
  KnownAdditions known;
  AdditionArithmetic arithmetic;
  OrderCounts counts;
  std::vector<TargetOrder> targets;  // ascending
  double seconds_of_more = 0;  // what the search for those took that have more additions than are searched through
  std::vector<InversionBin> inversions;
  int64_t inversions_from = 0;  // pixels, those whose order is unique
  const char* index_name = "";  // "query"
};

// What an order is read from: all but the last two members are given. The call and the tensors must outlive it.
struct OrderMaterial {
  const Call& call;
  Gradient gradient;       // a scattered one
  const Tensor& recorded;  // of that gradient
  const Tensor& before;    // what its buffer held; without data: zeros
  std::string kernel;      // its name, or empty
  // Null if the operator does not list them; then there are no orders.
  std::shared_ptr<const Additions> additions = call.additions(gradient);
  KnownAdditions known = additions ? known_additions(*additions, kernel) : KnownAdditions{};

  // Returns what the sum of an element begins with.
  double start_of(int64_t flat) const { return additions->start(flat, before ? before.at(flat) : 0); }
};

// Returns how the kernel computes and sums the addends, by the pixels with the fewest of them.
AdditionArithmetic find_addition_arithmetic(const OrderMaterial& material, const SearchLimits& limits);

// Finds the orders. Calls `progress` with the share done, from one thread. Returns nothing if the operator does not
// list its additions.
std::optional<OrderReport> find_orders(const OrderMaterial& material, const OrderSettings& settings,
                                       const std::function<void(double)>& progress);

// Returns the problem of one target; `addends`: all of it.
OrderProblem problem_of(const OrderMaterial& material, const AdditionArithmetic& arithmetic,
                        std::span<const SharedAddend> addends);
// Parts of a family's addends with one target each.
std::vector<std::span<const SharedAddend>> by_target(std::span<const SharedAddend> addends);
// Finds the order of one target.
TargetOrder order_of(const OrderMaterial& material, const AdditionArithmetic& arithmetic,
                     std::span<const SharedAddend> addends, const SearchLimits& limits, bool faults);

// The gradient again, its addends added in the orders found, and in the order of the samples where none was. Calls
// put(flat, value) for every element, of the recorded type.
void replay_orders(const OrderMaterial& material, const OrderReport& report,
                   const std::function<void(int64_t flat, double value)>& put);

}  // namespace msda::analysis
