#include "kernels/checked/scatter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "kernels/guarded.h"
#include "kernels/names.h"

namespace msda::kernels {
namespace {

void check_scatter_conventions(const msda_scatter_add_call& call) {
  if (call.scale < MSDA_SCATTER_SUM || call.scale > MSDA_SCATTER_BY_FREQUENCY) {
    throw InvalidArgument(fmt::format("no such scale: {}", static_cast<int>(call.scale)));
  }
  if (call.source.rank < 1 || call.source.rank > MSDA_MAX_RANK) {
    throw InvalidArgument(fmt::format("source has rank {}, not 1 to {}", call.source.rank, int{MSDA_MAX_RANK}));
  }
  check_rank_and_sizes("source", call.source, call.source.rank);
  if (call.dim < 0 || call.dim >= call.source.rank) {
    throw InvalidArgument(fmt::format("dim is {}; source has {} dimensions", call.dim, call.source.rank));
  }
  if (call.index.dtype != MSDA_INT32 && call.index.dtype != MSDA_INT64) {
    throw InvalidArgument(fmt::format("index has type {}, not int32 or int64", name_of(call.index.dtype)));
  }
}

// Returns whether an index with the source's shape names the same row for all elements of a row, as an expanded one
// does.
bool is_of_rows(const msda_tensor& index, int dim) {
  for (int i = 0; i < index.rank; ++i) {
    if (i != dim && index.shape[i] != 1 && index.stride[i] != 0) return false;
  }
  return true;
}

msda_tensor along(const msda_tensor& tensor, int dim) {
  msda_tensor line = tensor;
  line.rank = 1;
  line.shape[0] = tensor.shape[dim];
  line.stride[0] = tensor.stride[dim];
  return line;
}

}  // namespace

msda_options plain_options(const char* operator_name, const msda_options* options) {
  const msda_options chosen = checked_options(options);
  if (chosen.mode != MSDA_MODE_DETERMINISTIC && chosen.mode != MSDA_MODE_FLOAT64) {
    throw InvalidArgument(
        fmt::format("{} has no mode {}, but deterministic and float64", operator_name, name_of(chosen.mode)));
  }
  return chosen;
}

CheckedScatter check_scatter(const msda_scatter_add_call& call, const msda_tensor& sum) {
  check_scatter_conventions(call);
  const auto shape = shape_of(call.source);
  const auto size = [&](int i) { return shape[static_cast<size_t>(i)]; };
  if (call.index.rank == 1) {
    check_exact_shape("index", call.index, {size(call.dim)});
  } else {
    check_exact_shape("index", call.index, shape);
  }
  check_float("source", call.source);
  auto of_sum = shape;
  if (sum.rank == call.source.rank) of_sum[static_cast<size_t>(call.dim)] = sum.shape[call.dim];
  check_result("sum", sum, of_sum);

  CheckedScatter checked{};
  checked.scale = call.scale;
  checked.include_self = call.include_self != 0;
  checked.padding = call.padding;
  checked.float64_inputs = call.source.dtype == MSDA_FLOAT64 || (checked.include_self && sum.dtype == MSDA_FLOAT64);
  checked.along = size(call.dim);
  checked.named = sum.shape[call.dim];
  if (std::ranges::count(shape, 0) > 0 && std::ranges::count(of_sum, 0) > 0) return checked;  // nothing is computed
  checked.outer = checked.inner = 1;
  for (int i = 0; i < call.source.rank; ++i) {
    if (i < call.dim) checked.outer *= size(i);
    if (i > call.dim) checked.inner *= size(i);
  }
  checked.by_elements = call.index.rank == call.source.rank && !is_of_rows(call.index, call.dim);
  if (checked.by_elements) {
    checked.n = checked.outer * checked.along * checked.inner;
    checked.rows = checked.outer * checked.named * checked.inner;
    checked.outer = checked.D = 1;
    checked.index = call.index;
  } else {
    checked.n = checked.along;
    checked.rows = checked.named;
    checked.D = checked.inner;
    checked.index = along(call.index, call.index.rank == 1 ? 0 : call.dim);
  }
  return checked;
}

}  // namespace msda::kernels
