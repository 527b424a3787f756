// PyTorch's kernel of scatter_add and of scatter_reduce with sum or mean, which the backward pass of gather launches:
//
//     _scatter_gather_elementwise_kernel<threads, elements, Loop>(int n, Loop loop)
//
// where Loop is the closure of _cuda_scatter_gather_internal_kernel<true, T, I>::operator()<ReduceAdd or ReduceMean>,
// below. Dimensions are those of a TensorIterator: sorted and merged. Along the one that is indexed the sum's stride is
// 0; its own is `stride`. The mean is divided by other kernels. After aten/src/ATen/native/cuda/ScatterGatherKernel.cu.
#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "recorder/adapters/decode.h"
#include "recorder/adapters/mangled.h"
#include "recorder/adapters/tensor_info.h"

namespace msda::adapters {
namespace {

constexpr std::string_view kScatterKernel = "34_scatter_gather_elementwise_kernel",
                           kLoop = "36_cuda_scatter_gather_internal_kernelILb1E";

// In the order in which the closure's body names what it captures.
struct Loop {
  OffsetCalculator<3> offsets;  // of sum, source and index
  uint64_t index;
  int64_t rows;  // of the sum
  std::byte reduce;
  uint64_t sum;
  int64_t stride, elements;
  uint64_t source;
};
static_assert(sizeof(Loop) == 664 && offsetof(Loop, index) == 608 && offsetof(Loop, sum) == 632);

struct ScatterSignature {
  msda_dtype type, index;
};

std::optional<ScatterSignature> scatter_signature(std::string_view symbol) {
  Mangled name(symbol);
  if (!name.take("_Z") || !name.take_past(kScatterKernel) || !name.take_past(kLoop)) return std::nullopt;
  const auto type = name.take_element_type();
  const bool wide = type && name.take("l");
  if (!type || (!wide && !name.take("i")) || !name.take("EclINS0_")) return std::nullopt;
  if (!name.take("9ReduceAddE") && !name.take("10ReduceMeanE")) return std::nullopt;
  if (!name.take_past("EUliE_EEviT1_") || !name.empty()) return std::nullopt;
  return ScatterSignature{*type, wide ? MSDA_INT64 : MSDA_INT32};
}

// A dimension: its size, and the strides of sum, source and index in elements.
struct Along {
  int64_t size, sum, source, index;
};

std::variant<std::vector<Along>, Refusal> dimensions_of(const Loop& loop, const ScatterSignature& signature) {
  const int64_t bytes = kernels::bytes_of(signature.type), index_bytes = kernels::bytes_of(signature.index);
  if (loop.offsets.dims < 0 || loop.offsets.dims > 8) {
    return Refusal{std::to_string(loop.offsets.dims) + " dimensions, not up to 8"};
  }
  std::vector<Along> all;
  for (size_t i = 0; i < static_cast<size_t>(loop.offsets.dims); ++i) {
    const auto& strides = loop.offsets.strides[i];
    if (strides[0] % bytes != 0 || strides[1] % bytes != 0 || strides[2] % index_bytes != 0) {
      return Refusal{"strides that are no multiples of an element"};
    }
    all.push_back({loop.offsets.sizes[i].divisor, strides[0] / bytes, strides[1] / bytes, strides[2] / index_bytes});
  }
  return all;
}

// Returns the one that is indexed, of which the sum knows nothing; added where it has one index and was left out.
std::optional<size_t> indexed_of(std::vector<Along>& all) {
  const auto is_indexed = [](const Along& along) { return along.size > 1 && along.sum == 0; };
  const auto count = std::ranges::count_if(all, is_indexed);
  if (count > 1) return std::nullopt;
  if (count == 0) {
    std::erase_if(all, [](const Along& along) { return along.size == 1; });
    all.push_back({1, 0, 0, 0});
  }
  return static_cast<size_t>(count == 0 ? std::ssize(all) - 1 : std::ranges::find_if(all, is_indexed) - all.begin());
}

class ScatterAdd final : public Adapter {
 public:
  std::string_view name() const override { return "scatter_add"; }
  bool matches(std::string_view symbol) const override {
    return symbol.find(kScatterKernel) != symbol.npos && symbol.find(kLoop) != symbol.npos &&
           (symbol.find("9ReduceAddE") != symbol.npos || symbol.find("10ReduceMeanE") != symbol.npos);
  }

  Decoded decode(const Launch& launch, const ReadDevice&) const override {
    const auto signature = scatter_signature(launch.kernel);
    if (!signature) return Refusal{"types that are not known"};
    if (!has_layout(launch, std::array{Slot(4), Slot(sizeof(Loop), alignof(Loop))})) {
      return Refusal{describe_layout(launch) + ", not 4 and " + std::to_string(sizeof(Loop)) + " bytes"};
    }
    const auto loop = parameter<Loop>(launch, 1);
    auto dimensions = dimensions_of(loop, *signature);
    if (auto* refusal = std::get_if<Refusal>(&dimensions)) return std::move(*refusal);
    auto& all = std::get<std::vector<Along>>(dimensions);
    const auto indexed = indexed_of(all);
    if (!indexed) return Refusal{"more than one dimension along which the sum has no stride"};
    if (loop.rows < 1 || loop.stride < 0) return Refusal{"a sum without rows"};
    all[*indexed].sum = loop.stride;
    return call_of(launch, loop, *signature, all, *indexed);
  }

 private:
  static Decoded call_of(const Launch& launch, const Loop& loop, const ScatterSignature& signature,
                         const std::vector<Along>& all, size_t indexed) {
    // Orders the dimensions as the sum lies in memory, the slowest first.
    std::vector<size_t> order(all.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return all[a].sum > all[b].sum; });
    DeviceTensor sum{{"sum", signature.type, {}}, loop.sum}, source{{"source", signature.type, {}}, loop.source},
        index{{"index", signature.index, {}}, loop.index};
    bool by_rows = true;  // one index for all that lies beside
    for (const size_t i : order) {
      const Along& along = all[i];
      sum.shape.push_back(i == indexed ? loop.rows : along.size);
      sum.strides.push_back(along.sum);
      source.shape.push_back(along.size);
      source.strides.push_back(along.source);
      index.strides.push_back(along.index);
      by_rows = by_rows && (i == indexed || along.index == 0 || along.size == 1);
    }
    index.shape = by_rows ? std::vector{all[indexed].size} : source.shape;
    if (by_rows) index.strides = {all[indexed].index};
    for (DeviceTensor* tensor : {&sum, &source, &index}) {
      if (auto fault = fault_of(*tensor)) return *std::move(fault);
      drop_row_major_strides(*tensor);
    }
    if (product(source.shape) != parameter<int32_t>(launch, 0)) {
      return Refusal{"n is " + std::to_string(parameter<int32_t>(launch, 0)) + ", not the number of indices"};
    }
    const auto dim = std::ranges::find(order, indexed) - order.begin();
    const uint64_t at = launch.parameters[1].offset;
    Call call{.inputs = {std::move(index), std::move(source)},
              .outputs = {std::move(sum)},
              .pointers = {{at + offsetof(Loop, index), "inputs/index"},
                           {at + offsetof(Loop, sum), "outputs/sum"},
                           {at + offsetof(Loop, source), "inputs/source"}},
              .facts = {.texts = {{"reduce", "sum"}}, .integers = {{"dim", dim}, {"dim_size", loop.rows}}}};
    return call;
  }
};

}  // namespace

void add_scatter_add(Adapters& all) { all.push_back(std::make_unique<const ScatterAdd>()); }

}  // namespace msda::adapters
