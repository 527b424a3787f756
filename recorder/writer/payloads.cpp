#include "recorder/writer/payloads.h"

#include <cstring>

#include "recorder/capture/schema.h"
#include "recorder/writer/types.h"

namespace msda::record {
namespace {

// What a tensor takes from its first element to its last, and row-major without gaps.
struct Extent {
  uint64_t spread, dense;
};

Extent extent_of(const spool::Tensor& tensor) {
  const auto size = static_cast<uint64_t>(capture::size_of(type_of(tensor.type)));
  uint64_t elements = 1, last = 0;
  bool fits = tensor.strides.empty() || tensor.strides.size() == tensor.shape.size();
  for (size_t i = 0; fits && i < tensor.shape.size(); ++i) {
    fits = tensor.shape[i] >= 0 && !__builtin_mul_overflow(elements, static_cast<uint64_t>(tensor.shape[i]), &elements);
    if (!fits || tensor.strides.empty() || tensor.shape[i] == 0) continue;
    uint64_t step = 0;
    fits = tensor.strides[i] >= 0 &&
           !__builtin_mul_overflow(static_cast<uint64_t>(tensor.shape[i] - 1), static_cast<uint64_t>(tensor.strides[i]),
                                   &step) &&
           !__builtin_add_overflow(last, step, &last);
  }
  Extent extent{0, 0};
  fits = fits && !__builtin_mul_overflow(elements, size, &extent.dense);
  if (elements > 0) fits = fits && !__builtin_mul_overflow(last + 1, size, &extent.spread);
  if (tensor.strides.empty()) extent.spread = extent.dense;
  if (!fits) throw spool::Error("tensor " + tensor.name + " in the spool has a shape that cannot be");
  return extent;
}

void gather(const spool::Tensor& tensor, std::span<const std::byte> from, std::vector<std::byte>& to) {
  const auto size = static_cast<size_t>(capture::size_of(type_of(tensor.type)));
  const size_t rank = tensor.shape.size();
  std::vector<int64_t> index(rank, 0);
  for (size_t at = 0; at < to.size(); at += size) {
    size_t element = 0;
    for (size_t i = 0; i < rank; ++i) element += static_cast<size_t>(index[i] * tensor.strides[i]);
    std::memcpy(to.data() + at, from.data() + element * size, size);
    for (size_t i = rank; i-- > 0 && ++index[i] == tensor.shape[i];) index[i] = 0;
  }
}

}  // namespace

Payloads::Payloads(const spool::Follower& spool, int shared_memory, bool release) : spool_(spool), release_(release) {
  if (shared_memory >= 0) ring_ = std::make_unique<spool::RingReader>(shared_memory);
}

int64_t Payloads::row_major_bytes(const spool::Tensor& tensor) { return static_cast<int64_t>(extent_of(tensor).dense); }

std::span<const std::byte> Payloads::bytes(const Item& item, std::vector<std::byte>& memory) {
  if (item.own) return *item.own;
  const spool::Tensor& tensor = item.tensor;
  const Extent extent = extent_of(tensor);
  if (tensor.zeros) {
    constexpr uint64_t kMost = uint64_t{1} << 40;
    if (extent.dense > kMost) throw spool::Error("tensor " + tensor.name + " in the spool is larger than any memory");
    memory.assign(extent.dense, std::byte{0});
    return memory;
  }
  std::span<const std::byte> spread;
  std::vector<std::byte> read;
  if (tensor.block >= 0) {
    if (!ring_) throw spool::Error("tensor " + tensor.name + " lay in the memory of a process that is gone");
    spread = ring_->bytes(tensor.offset, tensor.bytes);
  } else {
    read = spool_.payload(item.frame);
    spread = read;
  }
  if (spread.size() != extent.spread) {
    throw spool::Error("tensor " + tensor.name + " in the spool does not have the bytes that its shape wants");
  }
  if (!tensor.strides.empty()) {
    memory.resize(extent.dense);
    gather(tensor, spread, memory);
    return memory;
  }
  if (tensor.block >= 0) return spread;
  memory = std::move(read);
  return memory;
}

void Payloads::take(Item& item) {
  if (item.own) return;
  std::vector<std::byte> memory;
  const auto whole = bytes(item, memory);
  if (memory.empty()) memory.assign(whole.begin(), whole.end());
  release(item);
  item.own = std::make_shared<const std::vector<std::byte>>(std::move(memory));
}

void Payloads::arrived(const Item& item) {
  if (item.tensor.block >= 0) ++tensors_in_block_[item.tensor.block];
}

void Payloads::release(const Item& item) {
  if (item.own) return;
  if (item.tensor.block < 0) {
    if (release_) spool_.release(item.frame);
  } else if (--tensors_in_block_[item.tensor.block] == 0) {
    tensors_in_block_.erase(item.tensor.block);
    if (ring_) ring_->release(static_cast<uint32_t>(item.tensor.block));
  }
}

}  // namespace msda::record
