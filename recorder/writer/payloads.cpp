#include "recorder/writer/payloads.h"

#include "recorder/capture/schema.h"
#include "recorder/writer/types.h"

namespace msda::record {
namespace {

int64_t element_bytes(const spool::TensorDescription& tensor) { return capture::size_of(type_of(tensor.type)); }

spool::Extent extent_of(const spool::TensorDescription& tensor) {
  const auto extent = spool::extent_of(tensor.shape, tensor.strides, element_bytes(tensor));
  if (!extent || extent->begin < 0) {
    throw spool::Error("tensor " + tensor.name + " in the spool has a shape that cannot be");
  }
  return *extent;
}

}  // namespace

Payloads::Payloads(const spool::Follower& spool, int shared_memory, bool release) : spool_(spool), release_(release) {
  if (shared_memory >= 0) ring_ = std::make_unique<spool::RingReader>(shared_memory);
}

int64_t Payloads::row_major_bytes(const spool::TensorDescription& tensor) { return extent_of(tensor).dense; }

std::span<const std::byte> Payloads::bytes(const Item& item, std::vector<std::byte>& memory) {
  if (item.own) return *item.own;
  const spool::TensorDescription& tensor = item.tensor.description;
  const spool::Extent extent = extent_of(tensor);
  if (item.tensor.zeros) {
    constexpr int64_t kMost = int64_t{1} << 40;
    if (extent.dense > kMost) throw spool::Error("tensor " + tensor.name + " in the spool is larger than any memory");
    memory.assign(static_cast<size_t>(extent.dense), std::byte{0});
    return memory;
  }
  std::span<const std::byte> spread;
  std::vector<std::byte> read;
  if (item.tensor.block >= 0) {
    if (!ring_) throw spool::Error("tensor " + tensor.name + " lay in the memory of a process that is gone");
    spread = ring_->bytes(item.tensor.offset, item.tensor.bytes);
  } else {
    read = spool_.payload(item.frame);
    spread = read;
  }
  if (spread.size() != static_cast<uint64_t>(extent.end)) {
    throw spool::Error("tensor " + tensor.name + " in the spool does not have the bytes that its shape wants");
  }
  if (!tensor.strides.empty()) {
    memory.resize(static_cast<size_t>(extent.dense));
    spool::copy_row_major(spread.data(), tensor.shape, tensor.strides, element_bytes(tensor), memory.data());
    return memory;
  }
  if (item.tensor.block >= 0) return spread;
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
