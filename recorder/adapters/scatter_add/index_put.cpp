// PyTorch's kernels of index_put with accumulate, which the backward pass of x[index] launches as well:
//
//     indexing_backward_kernel<T, n>, _stride_1<T>, _small_stride<T>(
//         const int64_t* sorted, const int64_t* rows, const T* source, T* sum, int64_t count, int64_t channels,
//         int64_t sum_outer, int64_t outer, bool accumulate)
//
// The indices come sorted, with the source rows that they belong to. `sum_outer` is the sum's stride between the outer
// slices, 0 if there is but one: then the sum is recorded up to the last index, as the kernel reaches no more. After
// aten/src/ATen/native/cuda/Indexing.cu.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "recorder/adapters/decode.h"
#include "recorder/adapters/mangled.h"

namespace msda::adapters {
namespace {

constexpr std::string_view kKernels[] = {"24indexing_backward_kernelI", "33indexing_backward_kernel_stride_1I",
                                         "37indexing_backward_kernel_small_strideI"};
constexpr int64_t kMostIndexPutRows = int64_t{1} << 40;

std::optional<msda_dtype> index_put_type(std::string_view symbol) {
  for (const std::string_view kernel : kKernels) {
    Mangled name(symbol);
    if (!name.take("_Z") || !name.take_past(kernel)) continue;
    const auto type = name.take_element_type();
    if (!type || !name.take_past("EEvPKlS") || !name.take_past("llllb") || !name.empty()) return std::nullopt;
    return type;
  }
  return std::nullopt;
}

class IndexPut final : public Adapter {
 public:
  std::string_view name() const override { return "index_put"; }
  bool matches(std::string_view symbol) const override {
    return std::ranges::any_of(kKernels, [&](std::string_view name) { return symbol.find(name) != symbol.npos; });
  }

  Decoded decode(const Launch& launch, const ReadDevice& read) const override {
    const auto type = index_put_type(launch.kernel);
    if (!type) return Refusal{"an element type that is not known"};
    std::vector<Slot> layout(8, Slot(8));
    layout.emplace_back(1);
    if (!has_layout(launch, layout)) return Refusal{describe_layout(launch) + ", not the 9 that its name says"};
    if (parameter<uint8_t>(launch, 8) != 1) return Refusal{"it does not accumulate"};
    const auto sorted = parameter<uint64_t>(launch, 0);
    const auto count = parameter<int64_t>(launch, 4), channels = parameter<int64_t>(launch, 5),
               sum_outer = parameter<int64_t>(launch, 6), outer = parameter<int64_t>(launch, 7);
    if (!product(std::array{count, channels, outer})) return Refusal{"sizes that are not positive"};
    const auto rows = rows_of(sorted, count, channels, sum_outer, outer, read);
    const bool has_outer = outer > 1;
    if (!rows) return Refusal{"a sum whose number of rows is unknown", /*of_this_launch=*/!has_outer};
    const auto shape = [&](int64_t size) {
      return has_outer ? std::vector{outer, size, channels} : std::vector{size, channels};
    };
    Call call{.inputs = {{{"index", MSDA_INT64, {count}}, sorted},
                         {{"source_row", MSDA_INT64, {count}}, parameter<uint64_t>(launch, 1)},
                         {{"source", *type, shape(count)}, parameter<uint64_t>(launch, 2)}},
              .outputs = {{{"sum", *type, shape(*rows)}, parameter<uint64_t>(launch, 3)}},
              .pointers = pointers_at(
                  launch, {{0, "inputs/index"}, {1, "inputs/source_row"}, {2, "inputs/source"}, {3, "outputs/sum"}}),
              .reads_data = !has_outer,
              .facts = {.texts = {{"reduce", "sum"}}, .integers = {{"dim", has_outer ? 1 : 0}, {"dim_size", *rows}}}};
    return checked(std::move(call));
  }

 private:
  static std::optional<int64_t> rows_of(uint64_t sorted, int64_t count, int64_t channels, int64_t sum_outer,
                                        int64_t outer, const ReadDevice& read) {
    if (outer > 1) {
      if (sum_outer < 1 || sum_outer % channels != 0) return std::nullopt;
      return sum_outer / channels;
    }
    int64_t last = 0;
    const uint64_t at = sorted + static_cast<uint64_t>(count - 1) * sizeof last;
    if (sorted == 0 || !read || !read(at, &last, sizeof last) || last < 0 || last >= kMostIndexPutRows)
      return std::nullopt;
    return last + 1;
  }
};

}  // namespace

void add_index_put(Adapters& all) { all.push_back(std::make_unique<const IndexPut>()); }

}  // namespace msda::adapters
