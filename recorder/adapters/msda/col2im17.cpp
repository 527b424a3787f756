// The backward kernels of Deformable DETR and of all projects that copied them: 17 parameters, whose types stand in the
// mangled name. The same kernels exist for one and three dimensions, under the same names and with the same parameters;
// only the table of levels distinguishes them: it adds up to S in two dimensions only.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "recorder/adapters/mangled.h"
#include "recorder/adapters/msda/tensors.h"

namespace msda::adapters {
namespace {

constexpr std::string_view kFamilies[] = {
    "ms_deformable_col2im_gpu_kernel_",       // Deformable DETR
    "deformable_attn_cuda_kernel_backward_",  // RT-DETR's, for Paddle
};

constexpr std::string_view kVariants[] = {
    "shm_blocksize_aware_reduce_v1",
    "shm_blocksize_aware_reduce_v2",
    "shm_reduce_v1",
    "shm_reduce_v2",
    "shm_reduce_v2_multi_blocks",
    "gm",
};

// Returns the name from the kernel's template arguments on; nothing for an unknown kernel.
std::optional<Mangled> after_identifier(std::string_view kernel) {
  if (!kernel.starts_with("_Z")) return std::nullopt;
  for (const std::string_view family : kFamilies) {
    const size_t at = kernel.find(family);
    if (at == kernel.npos) continue;
    for (const std::string_view variant : kVariants) {
      // An identifier follows its length. What stands before may end in a digit too, such as a namespace v1.
      Mangled rest(kernel.substr(at + family.size()));
      const std::string length = std::to_string(family.size() + variant.size());
      if (kernel.substr(0, at).ends_with(length) && rest.take(variant) && rest.take("I")) return rest;
    }
  }
  return std::nullopt;
}

// Returns whether the name, which is known to belong to the family, is that of this variant.
bool has_variant(std::string_view kernel, std::string_view variant) {
  return kernel.find("_kernel_" + std::string(variant) + "I") != kernel.npos ||
         kernel.find("_backward_" + std::string(variant) + "I") != kernel.npos;
}

struct Col2imSignature {
  msda_dtype float_type;
  bool wide_n;         // int64
  bool narrow_shapes;  // int32
};

// void kernel<T, optionally a block size>(n, 2 const T*, 2 const shapes*, 2 const T*, 7 int, 3 T*).
std::variant<Col2imSignature, Refusal> col2im_signature(std::string_view kernel) {
  auto name = after_identifier(kernel);
  if (!name) return Refusal{"none of the known variants of this kernel"};
  const auto type = name->take_element_type();
  if (!type) return Refusal{"an element type that is not known"};

  const Refusal unknown_signature{"other parameters than the known kernels of this name have"};
  if (name->take("Lj") && (name->take_all_of("0123456789").empty() || !name->take("E"))) return unknown_signature;
  if (!name->take("E")) return unknown_signature;
  name->take("E");  // closes a nested name
  if (!name->take("v")) return unknown_signature;
  const bool wide_n = name->take("l");
  if (!wide_n && !name->take("i")) return unknown_signature;
  if (!name->take("PKT_")) return unknown_signature;
  const std::string_view value = name->take_seen();
  const bool narrow_shapes = name->take("PKi");
  if (value.empty() || (!narrow_shapes && !name->take("PKl"))) return unknown_signature;
  const std::string_view level_start = name->take_seen();
  if (level_start.empty() || level_start == value) return unknown_signature;
  if (name->take_seen() != value || name->take_seen() != value || !name->take("iiiiiiiP")) return unknown_signature;
  if (name->take_seen().empty()) return unknown_signature;
  const std::string_view gradient = name->take_seen();
  if (gradient.empty() || name->take_seen() != gradient || !name->empty()) return unknown_signature;
  return Col2imSignature{*type, wide_n, narrow_shapes};
}

class Col2im17 final : public Adapter {
 public:
  std::string_view name() const override { return "col2im17"; }

  bool matches(std::string_view kernel) const override {
    return std::ranges::any_of(kFamilies, [&](std::string_view family) { return kernel.find(family) != kernel.npos; });
  }

  Decoded decode(const Launch& launch, const ReadDevice& read) const override {
    const auto parsed = col2im_signature(launch.kernel);
    if (const auto* refusal = std::get_if<Refusal>(&parsed)) return *refusal;
    const Col2imSignature& signature = std::get<Col2imSignature>(parsed);
    if (signature.narrow_shapes)
      return Refusal{"spatial_shapes are int32, as in TensorRT's plugin; only int64 is known"};

    std::array<Slot, 17> layout;
    layout.fill(sizeof(uint64_t));
    std::fill_n(layout.begin() + kSizes, 7, sizeof(int32_t));
    layout[0] = signature.wide_n ? sizeof(int64_t) : sizeof(int32_t);
    if (!has_layout(launch, layout)) {
      return Refusal{describe_layout(launch) + ", not the 17 that its name says"};
    }

    const auto size = [&](size_t i) { return int64_t{parameter<int32_t>(launch, kSizes + i)}; };
    const auto pointer = [&](size_t i) { return parameter<uint64_t>(launch, i); };
    const Sizes sizes{.B = size(0), .S = size(1), .M = size(2), .D = size(3), .L = size(4), .Q = size(5), .P = size(6)};
    const Addresses addresses{.value = pointer(2),
                              .spatial_shapes = pointer(3),
                              .level_start_index = pointer(4),
                              .sampling_locations = pointer(5),
                              .attention_weights = pointer(6),
                              .grad_output = pointer(1),
                              .grad_value = pointer(14),
                              .grad_sampling_locations = pointer(15),
                              .grad_attention_weights = pointer(16)};
    const Call conventions{.dialect = MSDA_DEFORMABLE_DETR, .padding = MSDA_PADDING_ZEROS, .align_corners = false};
    Decoded decoded = with_tensors(conventions, sizes, signature.float_type, addresses);
    if (std::holds_alternative<Refusal>(decoded)) return decoded;
    std::get<Call>(decoded).data_decide_sizes = false;
    std::get<Call>(decoded).pointers = pointers_at(launch, {{1, "inputs/grad_output"},
                                                            {2, "inputs/value"},
                                                            {3, "inputs/spatial_shapes"},
                                                            {4, "inputs/level_start_index"},
                                                            {5, "inputs/sampling_locations"},
                                                            {6, "inputs/attention_weights"},
                                                            {14, "outputs/grad_value"},
                                                            {15, "outputs/grad_sampling_locations"},
                                                            {16, "outputs/grad_attention_weights"}});

    const int64_t n = n_of(launch, signature);
    const std::array columns{sizes.B, sizes.Q, sizes.M, sizes.D};
    if (n != product(columns)) return Refusal{"n is " + std::to_string(n) + ", not B*Q*M*D"};

    const auto adds_up = LevelTable(addresses.spatial_shapes, read).adds_up(sizes.L, sizes.S);
    if (!adds_up) return Refusal{"spatial_shapes cannot be read", /*of_this_launch=*/true};
    if (!*adds_up) {
      return Refusal{"the levels do not add up to " + std::to_string(sizes.S) + " pixels: not in two dimensions?"};
    }
    return decoded;
  }

  // Each kernel loops over n. Most kernels sum over the D threads of a block, one for each channel; two do not.
  std::variant<LaunchShape, Refusal> with_block(const Launch& launch, uint32_t threads) const override {
    const auto signature = std::get<Col2imSignature>(col2im_signature(launch.kernel));
    const auto channels = static_cast<uint32_t>(parameter<int32_t>(launch, kSizes + 3));
    const bool sums_parts = has_variant(launch.kernel, "shm_reduce_v2_multi_blocks");
    if (!sums_parts && !has_variant(launch.kernel, "gm")) {
      return Refusal{"it sums over the " + std::to_string(channels) + " threads of a block, one for each channel"};
    }
    if (sums_parts && channels % threads != 0) {
      return Refusal{"its blocks share the " + std::to_string(channels) + " channels evenly"};
    }
    const auto element = static_cast<uint32_t>(kernels::bytes_of(signature.float_type));
    return shape_of_loop(n_of(launch, signature), threads, sums_parts ? 3 * threads * element : 0);
  }

 private:
  static int64_t n_of(const Launch& launch, const Col2imSignature& signature) {
    return signature.wide_n ? parameter<int64_t>(launch, 0) : parameter<int32_t>(launch, 0);
  }

  static constexpr size_t kSizes = 7;  // the first of the seven parameters B S M D L Q P
};

}  // namespace

void add_col2im17(Adapters& all) { all.push_back(std::make_unique<const Col2im17>()); }

}  // namespace msda::adapters
