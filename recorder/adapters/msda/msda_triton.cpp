// msda-triton's backward kernel. Triton compiles integers that equal 1 into the kernel and leaves them out of its
// parameters, so the seven sizes are derived from the integers that are left, the grid, and the table of levels.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "recorder/adapters/msda/tensors.h"

namespace msda::adapters {
namespace {

constexpr std::string_view kTritonKernel = "triton_multi_scale_deformable_attention_bwd_kernel";
constexpr size_t kPointers = 8;  // then the integers, then one or two scratch pointers

// Returns the integer parameters, or nothing if the parameters do not match this kernel.
std::optional<std::vector<int64_t>> integers_of(const Launch& launch) {
  const auto& all = launch.parameters;
  size_t end = std::min(kPointers, all.size());
  while (end < all.size() && all[end].size == sizeof(int32_t)) ++end;
  const size_t scratch = all.size() - end;
  if (end < kPointers || end > kPointers + 7 || scratch < 1 || scratch > 2) return std::nullopt;

  std::vector<Slot> layout(all.size(), sizeof(uint64_t));
  std::fill(layout.begin() + kPointers, layout.begin() + end, sizeof(int32_t));
  if (!has_layout(launch, layout)) return std::nullopt;
  std::vector<int64_t> integers;
  for (size_t i = kPointers; i < end; ++i) integers.push_back(parameter<int32_t>(launch, i));
  return integers;
}

// Which of the sizes that the grid does not show are missing from the parameters.
struct LeftOut {
  bool S, D, L, P;
};

// Returns the sizes if exactly these are missing; nothing if that contradicts the grid or the number of integers.
std::optional<Sizes> sizes_if(const LeftOut& out, std::span<const int64_t> integers, const Sizes& grid) {
  size_t used = 0;
  const auto next = [&](bool left_out) -> int64_t {
    if (left_out) return 1;
    return used < integers.size() ? integers[used++] : 0;
  };
  // In the order of the parameters: B, I, C, N, H, L, P.
  Sizes sizes{};
  sizes.B = next(grid.B == 1);
  sizes.S = next(out.S);
  sizes.D = next(out.D);
  sizes.Q = next(grid.Q == 1);
  sizes.M = next(grid.M == 1);
  sizes.L = next(out.L);
  sizes.P = next(out.P);
  const bool enough = sizes.S > 0 && sizes.D > 0 && sizes.L > 0 && sizes.P > 0;
  const bool as_grid = sizes.B == grid.B && sizes.Q == grid.Q && sizes.M == grid.M;
  return enough && as_grid && used == integers.size() ? std::optional(sizes) : std::nullopt;
}

std::variant<Sizes, Refusal> sizes_of(std::span<const int64_t> integers, const Launch& launch, LevelTable table) {
  std::string words = "its integers";
  for (const int64_t integer : integers) words += " " + std::to_string(integer);
  if (std::ranges::any_of(integers, [](int64_t i) { return i < 2; })) {
    return Refusal{words + ": one is below 2, and Triton leaves out those that equal 1"};
  }

  const auto [queries, batch, heads] = launch.grid;
  const Sizes grid{.B = batch, .S = 0, .M = heads, .D = 0, .L = 0, .Q = queries, .P = 0};
  std::vector<Sizes> candidates, consistent;
  for (unsigned bits = 0; bits < 16; ++bits) {
    const LeftOut out{(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0};
    if (const auto sizes = sizes_if(out, integers, grid)) candidates.push_back(*sizes);
  }
  if (candidates.empty()) {
    return Refusal{words + " do not fit its grid of " + std::to_string(queries) + " queries, a batch of " +
                   std::to_string(batch) + " and " + std::to_string(heads) + " heads"};
  }
  // Candidates with few levels come first: once their levels have been found to fill S, more levels need not be read
  // from beyond the table.
  std::ranges::sort(candidates, {}, &Sizes::L);
  for (const Sizes& sizes : candidates) {
    const auto adds_up = table.adds_up(sizes.L, sizes.S);
    if (!adds_up) return Refusal{"spatial_shapes cannot be read", /*of_this_launch=*/true};
    if (*adds_up) consistent.push_back(sizes);
  }
  if (consistent.empty()) return Refusal{words + " do not agree with spatial_shapes"};
  if (consistent.size() > 1) {
    return Refusal{words + " could be the sizes in " + std::to_string(consistent.size()) + " ways"};
  }
  return consistent.front();
}

class MsdaTriton final : public Adapter {
 public:
  std::string_view name() const override { return "msda_triton"; }

  bool grid_follows_from_sizes() const override { return true; }

  bool matches(std::string_view kernel) const override { return kernel == kTritonKernel; }

  Decoded decode(const Launch& launch, const ReadDevice& read) const override {
    if (!matches(launch.kernel)) return Refusal{"not msda-triton's backward kernel"};
    if (!launch.float_type) return Refusal{"the image does not show the element type of its tensors"};
    if (*launch.float_type > MSDA_FLOAT64 || *launch.float_type < MSDA_FLOAT16) {
      return Refusal{"the element type of its tensors is not a floating-point one"};
    }
    const auto integers = integers_of(launch);
    if (!integers) {
      return Refusal{describe_layout(launch) + ", not 8 pointers, up to 7 integers and 1 or 2 scratch pointers"};
    }

    const auto pointer = [&](size_t i) { return parameter<uint64_t>(launch, i); };
    const Addresses addresses{.value = pointer(4),
                              .spatial_shapes = pointer(7),
                              .level_start_index = std::nullopt,
                              .sampling_locations = pointer(5),
                              .attention_weights = pointer(6),
                              .grad_output = pointer(3),
                              .grad_value = pointer(0),
                              .grad_sampling_locations = pointer(1),
                              .grad_attention_weights = pointer(2)};
    if (addresses.spatial_shapes == 0) return Refusal{"spatial_shapes is a null pointer"};
    const auto sizes = sizes_of(*integers, launch, LevelTable(addresses.spatial_shapes, read));
    if (const auto* refusal = std::get_if<Refusal>(&sizes)) return *refusal;
    // Padding and align_corners are constants of the compiled kernel.
    const Call conventions{.dialect = MSDA_MSDA_TRITON, .padding = std::nullopt, .align_corners = std::nullopt};
    Decoded decoded = with_tensors(conventions, std::get<Sizes>(sizes), *launch.float_type, addresses);
    if (auto* call = std::get_if<Call>(&decoded)) {
      // It overwrites the other two gradients and adds to grad_value.
      for (DeviceTensor& output : call->outputs) output.written_over = output.name != "grad_value";
      call->pointers = pointers_at(launch, {{0, "outputs/grad_value"},
                                            {1, "outputs/grad_sampling_locations"},
                                            {2, "outputs/grad_attention_weights"},
                                            {3, "inputs/grad_output"},
                                            {4, "inputs/value"},
                                            {5, "inputs/sampling_locations"},
                                            {6, "inputs/attention_weights"},
                                            {7, "inputs/spatial_shapes"}});
      for (size_t i = kPointers + integers->size(); i < launch.parameters.size(); ++i) {
        call->pointers.push_back({launch.parameters[i].offset, ""});  // scratch memory
      }
    }
    return decoded;
  }

  std::variant<LaunchShape, Refusal> with_block(const Launch&, uint32_t) const override {
    return Refusal{"Triton compiles the block into the kernel; another recorded variant of it has another block"};
  }
};

}  // namespace

void add_msda_triton(Adapters& all) { all.push_back(std::make_unique<const MsdaTriton>()); }

}  // namespace msda::adapters
