// PyTorch's kernel of embedding's backward pass for up to 3072 indices:
//
//     embedding_backward_feature_kernel<T, A, I>(const I* index, const T* source, T* sum, int n, int64_t channels,
//                                                int padding_idx)
//
// Its parameters do not give the sum's number of rows: rows up to the largest index are recorded, because it reaches no
// others. More indices are sorted, and their rows are summed by several kernels, of which none has both the indices and
// the sum. After aten/src/ATen/native/cuda/Embedding.cu and EmbeddingBackwardKernel.cu.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "recorder/adapters/decode.h"
#include "recorder/adapters/mangled.h"

namespace msda::adapters {
namespace {

constexpr std::string_view kEmbeddingKernel = "33embedding_backward_feature_kernel";
constexpr int64_t kMostEmbedded = 3072, kMostEmbeddingRows = int64_t{1} << 40;
// The kernels of the backward pass that sorts.
constexpr std::string_view kSorted[] = {"19compute_grad_weightI", "37compute_grad_weight_atomic_accumulateI",
                                        "15sum_and_scatterI"};

struct EmbeddingSignature {
  msda_dtype type, index;
};

std::optional<EmbeddingSignature> embedding_signature(std::string_view symbol) {
  Mangled name(symbol);
  if (!name.take("_Z") || !name.take_past(kEmbeddingKernel) || !name.take("I")) return std::nullopt;
  const auto type = name.take_element_type();
  if (!type || !name.take(*type == MSDA_FLOAT64 ? "d" : "f")) return std::nullopt;
  const bool wide = name.take("l");
  if ((!wide && !name.take("i")) || !name.take("EEvPKT1_PKT_P") || name.take_seen().empty() || !name.take("ili") ||
      !name.empty()) {
    return std::nullopt;
  }
  return EmbeddingSignature{*type, wide ? MSDA_INT64 : MSDA_INT32};
}

// Returns the number of rows up to the largest index; nothing if the indices cannot be read, or one is invalid.
template <class Index>
std::optional<int64_t> rows_reached(uint64_t address, int64_t count, const ReadDevice& read) {
  std::vector<Index> indices(static_cast<size_t>(count));
  if (!read || !read(address, indices.data(), indices.size() * sizeof(Index))) return std::nullopt;
  const auto [least, most] = std::ranges::minmax(indices);
  if (least < 0 || static_cast<int64_t>(most) >= kMostEmbeddingRows) return std::nullopt;
  return int64_t{most} + 1;
}

class Embedding final : public Adapter {
 public:
  std::string_view name() const override { return "embedding"; }
  bool matches(std::string_view symbol) const override {
    return symbol.find(kEmbeddingKernel) != symbol.npos || sorts(symbol);
  }

  Decoded decode(const Launch& launch, const ReadDevice& read) const override {
    if (sorts(launch.kernel)) {
      return Refusal{
          "it sums sorted rows in several launches, of which none has both the indices and the sum; up to 3072 indices "
          "are recorded"};
    }
    const auto signature = embedding_signature(launch.kernel);
    if (!signature) return Refusal{"types that are not known"};
    if (!has_layout(launch, std::array{Slot(8), Slot(8), Slot(8), Slot(4), Slot(8), Slot(4)})) {
      return Refusal{describe_layout(launch) + ", not the 6 that its name says"};
    }
    const auto index = parameter<uint64_t>(launch, 0);
    const int64_t count = parameter<int32_t>(launch, 3), channels = parameter<int64_t>(launch, 4),
                  padding = parameter<int32_t>(launch, 5);
    if (count < 1 || count > kMostEmbedded) return Refusal{std::to_string(count) + " indices, not 1 to 3072"};
    const auto rows = signature->index == MSDA_INT64 ? rows_reached<int64_t>(index, count, read)
                                                     : rows_reached<int32_t>(index, count, read);
    if (!rows) return Refusal{"indices that cannot be read, or of which one is no row", /*of_this_launch=*/true};
    Call call{.inputs = {{{"index", signature->index, {count}}, index},
                         {{"source", signature->type, {count, channels}}, parameter<uint64_t>(launch, 1)}},
              .outputs = {{{"sum", signature->type, {*rows, channels}}, parameter<uint64_t>(launch, 2)}},
              .pointers = pointers_at(launch, {{0, "inputs/index"}, {1, "inputs/source"}, {2, "outputs/sum"}}),
              .reads_data = true,
              .facts = {.texts = {{"reduce", "sum"}}, .integers = {{"dim", 0}, {"dim_size", *rows}}}};
    if (padding >= 0) call.facts.integers["padding_idx"] = padding;
    return checked(std::move(call));
  }

 private:
  static bool sorts(std::string_view symbol) {
    return std::ranges::any_of(kSorted, [&](std::string_view name) { return symbol.find(name) != symbol.npos; });
  }
};

}  // namespace

void add_embedding(Adapters& all) { all.push_back(std::make_unique<const Embedding>()); }

}  // namespace msda::adapters
