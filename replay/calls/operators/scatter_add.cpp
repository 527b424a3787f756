#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <vector>

#include "analysis/operators/scatter_add/call.h"
#include "replay/base/errors.h"
#include "replay/calls/facts.h"
#include "replay/calls/load_operator.h"

namespace msda::replay {
namespace {

constexpr int64_t kMostRank = 8;  // as PyTorch's kernels for tensors of any strides

void check_shapes(const analysis::ScatterAddCall& call, const std::string& where) {
  const analysis::Index &index = call.index.shape, &source = call.values.shape;
  const bool integers = call.index.dtype == MSDA_INT32 || call.index.dtype == MSDA_INT64;
  if (!integers) {
    throw BadInput(
        fmt::format("{}: index has type {}; it must be int32 or int64", where, msda_dtype_name(call.index.dtype)));
  }
  check_tensor(call.values, source, "source", where);
  const int64_t rows = source[static_cast<size_t>(call.dim)];
  if (index != source && index != analysis::Index{rows}) {
    throw BadInput(
        fmt::format("{}: index has shape {} and source {}; an index for each row has shape [{}], one for each element "
                    "the shape of source",
                    where, index, source, rows));
  }
  if (call.self) check_tensor(call.self, call.shape_of(analysis::ScatterAddGradient::kAll[0]), "what sum held", where);
}

// Every index is that of a row of the sum.
void check_indices(const analysis::ScatterAddCall& call, const std::string& where) {
  const int64_t lowest = call.wraps ? -call.dim_size : 0;
  for (int64_t i = 0, total = call.index.elements(); i < total; ++i) {
    const auto row = static_cast<int64_t>(call.index.at(i));
    if ((row >= lowest && row < call.dim_size) || row == call.padding) continue;
    const bool wraps = row < 0 && row >= -call.dim_size;
    throw BadInput(fmt::format("{}: index[{}] is {}, and dimension {} of sum has {} rows{}", where,
                               fmt::join(call.index.index_of(i), ","), row, call.dim, call.dim_size,
                               wraps ? " (index_put counts negative indices from the end: wraps_negative 1)" : ""));
  }
}

// Returns an index for each source row, of indices that were sorted together with the rows that they belong to.
std::shared_ptr<const analysis::OwnedTensor> unsorted(const analysis::Tensor& index, const analysis::Tensor& rows,
                                                      const std::string& where) {
  if (index.shape.size() != 1 || rows.shape != index.shape || index.dtype != MSDA_INT64 || rows.dtype != MSDA_INT64) {
    throw BadInput(
        fmt::format("{}: index has shape {} and source_row {}; a sorted index has one dimension, and both are int64",
                    where, index.shape, rows.shape));
  }
  const int64_t count = index.elements();
  auto result = std::make_shared<analysis::OwnedTensor>("index", MSDA_INT64, index.shape);
  std::vector<bool> seen(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const auto row = static_cast<int64_t>(rows.at(i));
    if (row < 0 || row >= count || seen[static_cast<size_t>(row)]) {
      throw BadInput(fmt::format("{}: source_row[{}] is {}; it must name each of {} rows once", where, i, row, count));
    }
    seen[static_cast<size_t>(row)] = true;
    const auto target = static_cast<int64_t>(index.at(i));
    std::memcpy(&result->bytes[static_cast<size_t>(row) * sizeof target], &target, sizeof target);
  }
  return result;
}

std::shared_ptr<const analysis::Call> load_scatter_add(const CallSource& source) {
  const auto& [invocation, where, input, recorded, before, reference] = source;
  auto call = std::make_shared<analysis::ScatterAddCall>();
  call->index = input("index");
  if (find(invocation.inputs, "source_row") != nullptr) {
    call->unsorted = unsorted(call->index, input("source_row"), where);
    call->index = call->unsorted->view();
  }
  call->values = input("source");
  const auto rank = static_cast<int64_t>(call->values.shape.size());
  if (rank < 1 || rank > kMostRank) {
    throw BadInput(fmt::format("{}: source has rank {}; it must be from 1 to {}", where, rank, kMostRank));
  }
  call->dim = integer_in(invocation, "dim", 0, rank - 1, where);
  call->dim_size = integer_in(invocation, "dim_size", 0, int64_t{1} << 40, where);
  const std::string reduce = text_of(invocation, "reduce");
  if (reduce != "sum" && reduce != "mean") {
    throw BadInput(fmt::format("{}: unknown reduce \"{}\"; there are sum and mean", where, reduce));
  }
  call->mean = reduce == "mean";
  call->include_self = flag_of(invocation, "include_self", true, where);
  call->wraps = flag_of(invocation, "wraps_negative", false, where);
  call->by_frequency = flag_of(invocation, "scale_grad_by_freq", false, where);
  call->padding = integer_of(invocation, "padding_idx");
  if (find(invocation.inputs, "self") != nullptr) {
    call->self = input("self");
  } else if (call->include_self) {
    call->self = before("sum");
  }
  check_shapes(*call, where);
  check_result(call->shape_of(analysis::ScatterAddGradient::kAll[0]), "sum", where);
  check_indices(*call, where);
  call->take_sizes();
  return call;
}

}  // namespace

extern const OperatorLoader loader_of_scatter_add{load_scatter_add};

}  // namespace msda::replay
