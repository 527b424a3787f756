#include "recorder/preload/launch/abi_call.h"

#include <algorithm>

#include "kernels/names.h"
#include "kernels/walk.h"
#include "recorder/preload/driver/digester.h"
#include "recorder/preload/launch/known_launch.h"
#include "recorder/tensors/tensor.h"

namespace msda::record {
namespace {

using tensors::Extent;

// Returns nothing for an invalid tensor.
std::optional<Extent> extent_of(const msda_tensor& tensor) {
  if (tensor.rank < 0 || tensor.rank > MSDA_MAX_RANK || tensor.dtype < MSDA_FLOAT16 || tensor.dtype > MSDA_INT64) {
    return std::nullopt;
  }
  const auto extent =
      tensors::extent_of(kernels::sizes_of(tensor), kernels::strides_of(tensor), kernels::bytes_of(tensor.dtype));
  return extent && extent->elements > 0 && tensor.data == nullptr ? std::nullopt : extent;
}

// Copies the elements in row-major order; `first` points to the first.
void copy_row_major(const msda_tensor& tensor, const std::byte* first, std::byte* to) {
  tensors::copy_row_major(first, kernels::sizes_of(tensor), kernels::strides_of(tensor),
                          kernels::bytes_of(tensor.dtype), to);
}

HostTensor described(const char* name, const msda_tensor& tensor, std::span<const std::byte> bytes) {
  return {{name, tensor.dtype, {tensor.shape, tensor.shape + tensor.rank}, {}}, bytes};
}

}  // namespace

std::vector<std::byte>& Copies::new_memory(int64_t bytes) {
  memory_.emplace_back(std::make_unique<std::vector<std::byte>>(static_cast<size_t>(bytes)));
  return *memory_.back();
}

void Copies::add(const char* name, const msda_tensor* tensor) {
  if (tensor == nullptr) return;
  const auto extent = extent_of(*tensor);
  ok_ = ok_ && extent;
  if (!extent) return;
  const auto* data = static_cast<const std::byte*>(tensor->data);
  if (extent->contiguous) {
    tensors_.push_back(described(name, *tensor, {data, static_cast<size_t>(extent->dense)}));
    return;
  }
  std::vector<std::byte>& memory = new_memory(extent->dense);
  copy_row_major(*tensor, data, memory.data());
  tensors_.push_back(described(name, *tensor, memory));
}

std::string Copies::add_from_device(const std::vector<Named>& tensors, cuda::Stream stream) {
  struct Piece {
    Named named;
    Extent extent;
    uint64_t address;  // of the extent's first byte
    std::vector<std::byte>* memory;
  };
  std::vector<Piece> pieces;
  uint64_t somewhere = 0;
  for (const Named& named : tensors) {
    if (named.tensor == nullptr) continue;
    const auto extent = extent_of(*named.tensor);
    if (!extent) {
      ok_ = false;
      return "";
    }
    const auto address = reinterpret_cast<uintptr_t>(named.tensor->data) + static_cast<uint64_t>(extent->begin);
    const auto bytes = static_cast<uint64_t>(extent->end - extent->begin);
    if (!cuda::is_allocated(address, bytes)) {
      return std::string(named.name) + " does not lie in device memory from end to end";
    }
    if (bytes > 0) somewhere = address;
    pieces.push_back({named, *extent, address, &new_memory(extent->end - extent->begin)});
  }
  if (somewhere != 0) {
    // Waiting for a copy has no time limit. When a digest is ready, the stream has finished its earlier work.
    std::string failure = kStreamStalls;
    const DeviceRange first{somewhere, 1};
    const Digests reached = Digester::instance().start({&first, 1}, stream, failure);
    if (!reached || !wait_for(reached, stream)) return failure;
  }
  cuda::Result result = cuda::kSuccess;
  for (const Piece& piece : pieces) {
    if (result != cuda::kSuccess || piece.memory->empty()) continue;
    result = cuda::driver().copy_to_host(piece.memory->data(), piece.address, piece.memory->size(), stream);
  }
  const cuda::Result end = somewhere != 0 ? cuda::driver().synchronize(stream) : cuda::kSuccess;
  if (result != cuda::kSuccess || end != cuda::kSuccess) return "its tensors cannot be copied to the host";
  for (const Piece& piece : pieces) {
    const msda_tensor& tensor = *piece.named.tensor;
    std::vector<std::byte>* memory = piece.memory;
    if (!piece.extent.contiguous) {
      memory = &new_memory(piece.extent.dense);
      copy_row_major(tensor, piece.memory->data() - piece.extent.begin, memory->data());
      *piece.memory = {};
    }
    tensors_.push_back(described(piece.named.name, tensor, *memory));
  }
  return "";
}

std::optional<CallFacts> facts_of(const char* kernel, const msda_call& call, const msda_options* options,
                                  bool has_seed) {
  const msda_options chosen = options != nullptr ? *options : msda_options{};
  if (call.dialect < 0 || call.dialect >= std::ssize(kernels::kDialectNames) || call.padding < 0 ||
      call.padding > MSDA_PADDING_BORDER || chosen.mode < 0 || chosen.mode > MSDA_MODE_MIXED) {
    return std::nullopt;
  }
  CallFacts facts;
  facts.texts = {{"kernel", kernel},
                 {"dialect", kernels::name_of(call.dialect)},
                 {"padding_mode", kernels::name_of(call.padding)},
                 {"mode", kernels::name_of(chosen.mode)}};
  facts.integers = {{"align_corners", call.align_corners != 0}};
  if (chosen.mode == MSDA_MODE_ATOMIC && has_seed) facts.integers["seed"] = static_cast<int64_t>(chosen.seed);
  if (chosen.mode == MSDA_MODE_MIXED) facts.integers["float64_stages"] = chosen.float64_stages;
  return facts;
}

std::string describe_outputs(const WantedOutputs& wanted) {
  std::string words;
  for (const msda_tensor* tensor : {wanted.grad_value, wanted.grad_sampling_locations, wanted.grad_attention_weights}) {
    words += tensor != nullptr ? kernels::name_of(tensor->dtype) : "none";
    words += "\n";
  }
  return words;
}

}  // namespace msda::record
