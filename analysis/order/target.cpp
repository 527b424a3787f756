// The order of one target's additions; if there is none, what else would explain its bits.
#include <algorithm>
#include <cmath>
#include <map>

#include "analysis/order/find_orders.h"
#include "kernels/names.h"

namespace msda::analysis {
namespace {

// A sector of memory, and the line of several that a warp's access to neighbouring elements goes to as one.
constexpr int64_t kSectorBytes = 32, kLineBytes = 128;

using Blocks = std::vector<std::vector<size_t>>;

// Channels by the block of memory that they lie in, in bytes.
Blocks channels_by_block(std::span<const int64_t> elements, msda_dtype stored, int64_t bytes) {
  std::map<int64_t, std::vector<size_t>> blocks;
  for (size_t c = 0; c < elements.size(); ++c) blocks[elements[c] * kernels::bytes_of(stored) / bytes].push_back(c);
  Blocks all;
  for (auto& [block, channels] : blocks) all.push_back(std::move(channels));
  return all;
}

// Blocks of channels that may have an order each: the largest first.
std::vector<Blocks> blocks_of(std::span<const int64_t> elements, msda_dtype stored, bool channels_apart) {
  std::vector<Blocks> all;
  for (const int64_t bytes : {kLineBytes, kSectorBytes}) all.push_back(channels_by_block(elements, stored, bytes));
  if (!channels_apart) return all;
  all.emplace_back();
  for (size_t c = 0; c < elements.size(); ++c) all.back().push_back({c});
  return all;
}

// Returns an order for each block; nothing if one of them has none.
std::vector<OrderPart> orders_in_parts(const OrderProblem& problem, const Blocks& blocks, const SearchLimits& limits) {
  std::vector<OrderPart> parts;
  if (blocks.size() < 2) return parts;
  for (const std::vector<size_t>& channels : blocks) {
    OrderResult result = search_order(problem.part(channels), limits);
    if (result.fit != OrderFit::kFound) return {};
    parts.push_back({channels, std::move(result.order)});
  }
  return parts;
}

std::vector<AddendFault> find_faults(const OrderProblem& problem, const Additions& additions,
                                     std::span<const SharedAddend> addends, const SearchLimits& limits) {
  std::vector<AddendFault> faults;
  for (uint32_t i = 0; i < problem.size(); ++i) {
    for (const bool doubled : {false, true}) {
      const OrderResult result = search_order(doubled ? problem.twice(i) : problem.without(i), limits);
      if (result.fit == OrderFit::kFound) faults.push_back({doubled, i, additions.addend_name(addends[i])});
    }
  }
  return faults;
}

}  // namespace

std::vector<std::span<const SharedAddend>> by_target(std::span<const SharedAddend> addends) {
  std::vector<std::span<const SharedAddend>> targets;
  for (size_t begin = 0; begin < addends.size();) {
    size_t end = begin;
    while (end < addends.size() && addends[end].target == addends[begin].target) ++end;
    targets.push_back(addends.subspan(begin, end - begin));
    begin = end;
  }
  return targets;
}

OrderProblem problem_of(const OrderMaterial& material, const AdditionArithmetic& arithmetic,
                        std::span<const SharedAddend> addends) {
  OrderProblem problem;
  problem.type = arithmetic.sums;
  const std::vector<int64_t> elements = material.additions->elements_of(addends.front().target);
  problem.channels = elements.size();
  for (const int64_t flat : elements) {
    problem.recorded.push_back(material.recorded.at(flat));
    problem.start.push_back(material.start_of(flat));
  }
  problem.addends.resize(addends.size() * problem.channels);
  for (size_t i = 0; i < addends.size(); ++i) {
    const std::span<double> values(problem.addends.data() + i * problem.channels, problem.channels);
    material.additions->channel_factors(addends[i].sample, values);
    multiply(arithmetic.product, arithmetic.factors.type, values, addends[i].factors);
    for (double& value : values) value = rounded_to(value, arithmetic.sums.sum);
  }
  return problem;
}

TargetOrder order_of(const OrderMaterial& material, const AdditionArithmetic& arithmetic,
                     std::span<const SharedAddend> addends, const SearchLimits& limits, bool faults) {
  const Additions& additions = *material.additions;
  const OrderProblem problem = problem_of(material, arithmetic, addends);
  TargetOrder order;
  order.target = addends.front().target;
  order.addends = addends.size();
  for (const SharedAddend& addend : addends) order.launch_indices.push_back(additions.launch_index(addend.sample));
  const auto finite = [](double value) { return std::isfinite(value); };
  order.finite = std::ranges::all_of(problem.recorded, finite) && std::ranges::all_of(problem.start, finite) &&
                 std::ranges::all_of(problem.addends, finite);
  if (!order.finite) return order;
  order.result = search_order(problem, limits);
  if (order.result.fit != OrderFit::kImpossible) return order;
  // Few of these have an order that takes long to find; those that have none are mostly excluded at once.
  SearchLimits brief = limits;
  brief.steps = std::min<int64_t>(limits.steps, 200'000);
  brief.moves = std::min<int64_t>(limits.moves, 5'000);
  const std::vector<int64_t> elements = additions.elements_of(order.target);
  for (const Blocks& blocks : blocks_of(elements, problem.type.stored, material.known.channels_apart)) {
    order.parts = orders_in_parts(problem, blocks, brief);
    if (!order.parts.empty()) return order;
  }
  if (faults) order.faults = find_faults(problem, additions, addends, brief);
  return order;
}

}  // namespace msda::analysis
