// PyTorch's kernels of index_add, which the backward pass of index_select launches as well:
//
//     indexFuncSmallIndex<T, I, index_t, ...>(TensorInfo sum, TensorInfo source, TensorInfo index, int sum_dim,
//                                             int source_dim, index_t slice, int64_t rows, int64_t elements,
//                                             const ReduceAdd& op, T alpha)
//     indexFuncLargeIndex<T, I, index_t, ...>(..., int source_dim, index_t total, index_t inner, int64_t rows, ...)
//
// of which ReduceAdd alone adds. Sizes of `sum` and `source` along their dimensions are 1: those are `rows`, and the
// number of indices. `op` points to the host, and is not read. After aten/src/ATen/native/cuda/Indexing.cu.
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "recorder/adapters/decode.h"
#include "recorder/adapters/mangled.h"
#include "recorder/adapters/tensor_info.h"

namespace msda::adapters {
namespace {

constexpr std::string_view kLarge = "19indexFuncLargeIndex", kSmall = "19indexFuncSmallIndex", kAdds = "9ReduceAddEEEv";

struct IndexAddSignature {
  msda_dtype type, index;
  bool large, wide;  // index_t has 64 bits
};

std::optional<IndexAddSignature> index_add_signature(std::string_view symbol) {
  const bool large = symbol.find(kLarge) != symbol.npos;
  const size_t at = symbol.find(large ? kLarge : kSmall);
  if (at == symbol.npos || !symbol.starts_with("_Z")) return std::nullopt;
  Mangled name(symbol.substr(at + kLarge.size()));
  if (!name.take("I")) return std::nullopt;
  const auto type = name.take_element_type();
  const bool is_long = type && name.take("l");
  if (!type || (!is_long && !name.take("i"))) return std::nullopt;
  const bool wide = name.take("m");
  if (!wide && !name.take("j")) return std::nullopt;
  if (!name.take_past(kAdds) || !name.take("NS_4cuda6detail10TensorInfoI")) return std::nullopt;
  return IndexAddSignature{*type, is_long ? MSDA_INT64 : MSDA_INT32, large, wide};
}

// Returns whether a kernel's factor of the source is 1.
bool is_one(const Launch& launch, size_t at, msda_dtype type) {
  switch (type) {
    case MSDA_FLOAT32:
      return parameter<float>(launch, at) == 1;
    case MSDA_FLOAT64:
      return parameter<double>(launch, at) == 1;
    case MSDA_FLOAT16:
      return parameter<uint16_t>(launch, at) == 0x3c00;
    default:
      return parameter<uint16_t>(launch, at) == 0x3f80;
  }
}

// Returns a tensor with its size along the dimension that is indexed.
template <class Index>
std::variant<DeviceTensor, Refusal> index_add_tensor(const TensorInfo<Index>& info, const char* name, msda_dtype type,
                                                     int32_t dim, int64_t size) {
  if (info.dims < 1 || info.dims > 8) {
    return Refusal{std::string(name) + " has " + std::to_string(info.dims) + " dimensions, not 1 to 8"};
  }
  if (dim < 0 || dim >= info.dims || info.sizes[dim] != 1) {
    return Refusal{std::string(name) + " is not indexed along one of its dimensions"};
  }
  DeviceTensor tensor{{name, type, {info.sizes, info.sizes + info.dims}, {info.strides, info.strides + info.dims}},
                      info.data};
  tensor.shape[static_cast<size_t>(dim)] = size;
  if (auto fault = fault_of(tensor)) return *std::move(fault);
  drop_row_major_strides(tensor);
  return tensor;
}

class IndexAdd final : public Adapter {
 public:
  std::string_view name() const override { return "index_add"; }
  bool matches(std::string_view symbol) const override {
    return (symbol.find(kLarge) != symbol.npos || symbol.find(kSmall) != symbol.npos) &&
           symbol.find(kAdds) != symbol.npos;
  }

  Decoded decode(const Launch& launch, const ReadDevice&) const override {
    const auto signature = index_add_signature(launch.kernel);
    if (!signature) return Refusal{"types that are not known"};
    return signature->wide ? decode_as<int64_t, uint64_t>(launch, *signature)
                           : decode_as<int32_t, uint32_t>(launch, *signature);
  }

  // Its threads loop over the elements of a slice, or of all, independently.
  std::variant<LaunchShape, Refusal> with_block(const Launch& launch, uint32_t threads) const override {
    const bool wide = index_add_signature(launch.kernel)->wide;
    return shape_of_loop(wide ? parameter<int64_t>(launch, 5) : parameter<uint32_t>(launch, 5), threads, 0);
  }

 private:
  template <class Index, class Unsigned>
  static Decoded decode_as(const Launch& launch, const IndexAddSignature& signature) {
    constexpr Slot kTensor{sizeof(TensorInfo<Index>), alignof(TensorInfo<Index>)};
    std::vector<Slot> layout{kTensor, kTensor, kTensor, Slot(4), Slot(4), Slot(sizeof(Index))};
    if (signature.large) layout.emplace_back(sizeof(Index));
    const size_t rows_at = layout.size();
    for (int i = 0; i < 3; ++i) layout.emplace_back(8);  // rows, elements, op
    layout.emplace_back(static_cast<uint64_t>(kernels::bytes_of(signature.type)));
    if (!has_layout(launch, layout)) {
      return Refusal{describe_layout(launch) + ", not the " + std::to_string(layout.size()) + " that its name says"};
    }
    if (!is_one(launch, rows_at + 3, signature.type)) return Refusal{"alpha is not 1"};

    const auto index = parameter<TensorInfo<Index>>(launch, 2);
    if (index.dims != 1) return Refusal{"index has " + std::to_string(index.dims) + " dimensions, not 1"};
    const int64_t count = index.sizes[0], rows = parameter<int64_t>(launch, rows_at);
    const auto sum_dim = parameter<int32_t>(launch, 3), source_dim = parameter<int32_t>(launch, 4);
    auto sum = index_add_tensor(parameter<TensorInfo<Index>>(launch, 0), "sum", signature.type, sum_dim, rows);
    auto source =
        index_add_tensor(parameter<TensorInfo<Index>>(launch, 1), "source", signature.type, source_dim, count);
    DeviceTensor indices{{"index", signature.index, {count}, {index.strides[0]}}, index.data};
    for (const auto* tensor : {&sum, &source}) {
      if (const auto* refusal = std::get_if<Refusal>(tensor)) return *refusal;
    }
    if (auto fault = fault_of(indices)) return *std::move(fault);
    drop_row_major_strides(indices);
    auto& into = std::get<DeviceTensor>(sum);
    auto& from = std::get<DeviceTensor>(source);
    std::vector<int64_t> expected = into.shape;
    expected[static_cast<size_t>(sum_dim)] = count;
    if (sum_dim != source_dim || expected != from.shape) {
      return Refusal{"sum and source are laid out in different dimensions"};
    }
    const int64_t slice = *product(into.shape) / rows;
    const auto loop = static_cast<int64_t>(parameter<Unsigned>(launch, 5));
    if (loop != (signature.large ? slice * count : slice) || parameter<int64_t>(launch, rows_at + 1) != slice * rows) {
      return Refusal{"numbers of elements that contradict the sizes"};
    }
    Call call{.inputs = {std::move(indices), std::move(from)},
              .outputs = {std::move(into)},
              .pointers = pointers_at(launch, {{0, "outputs/sum"}, {1, "inputs/source"}, {2, "inputs/index"}}),
              .facts = {.texts = {{"reduce", "sum"}}, .integers = {{"dim", sum_dim}, {"dim_size", rows}}}};
    return call;
  }
};

}  // namespace

void add_index_add(Adapters& all) { all.push_back(std::make_unique<const IndexAdd>()); }

}  // namespace msda::adapters
