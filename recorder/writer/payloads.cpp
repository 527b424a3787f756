#include "recorder/writer/payloads.h"

#include <sys/mman.h>

#include <algorithm>

#include "recorder/tensors/tensor.h"

namespace msda::record {

// The tensors were checked when their frames were read, so that they have an extent.
Payloads::Payloads(const spool::Follower& spool, int shared_memory, bool release) : spool_(spool), release_(release) {
  if (shared_memory >= 0) ring_ = std::make_unique<spool::RingReader>(shared_memory);
}

Payloads::~Payloads() {
  for (const auto zeros : zeros_) munmap(const_cast<std::byte*>(zeros.data()), zeros.size());
}

int64_t Payloads::row_major_bytes(const tensors::Description& tensor) { return extent_of(tensor).value().dense; }

void Payloads::check_sizes(const std::vector<Item>& items) {
  // A scalar's gradient may be expanded to the size of the outputs: some thousand channels at most, beside tensors that
  // are stored in full.
  constexpr int64_t kAtLeast = 64 << 20, kMostTimes = 1024;
  int64_t stored = 0, claimed = 0;
  bool fits = true;
  for (const Item& item : items) {
    const tensors::Extent extent = extent_of(item.tensor.description).value();
    const int64_t bytes = item.tensor.zeros ? 0 : extent.end;
    fits = fits && !__builtin_add_overflow(stored, bytes, &stored);
    if (extent.dense > bytes) fits = fits && !__builtin_add_overflow(claimed, extent.dense, &claimed);
  }
  if (!fits || (claimed - kAtLeast) / kMostTimes > stored) {
    throw spool::Error("a call in the spool has tensors far larger than their bytes");
  }
}

std::span<const std::byte> Payloads::zeros(size_t size) {
  if (zeros_.empty() || size > zeros_.back().size()) {
    // Read-only and untouched, all of it maps one page.
    void* memory =
        mmap(nullptr, std::max<size_t>(size, 1), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw spool::Error("a tensor in the spool is larger than any memory");
    zeros_.emplace_back(static_cast<const std::byte*>(memory), std::max<size_t>(size, 1));
  }
  return zeros_.back().first(size);
}

std::span<const std::byte> Payloads::bytes(const Item& item, std::vector<std::byte>& memory) {
  if (item.own) return *item.own;
  const tensors::Description& tensor = item.tensor.description;
  const tensors::Extent extent = extent_of(tensor).value();
  if (item.tensor.zeros) return zeros(static_cast<size_t>(extent.dense));
  std::span<const std::byte> spread;  // unless it is recorded row-major
  std::vector<std::byte> read;
  if (item.tensor.block >= 0) {
    if (!ring_) throw spool::Error("tensor " + tensor.name + " lay in the memory of a process that is gone");
    spread = ring_->bytes(item.tensor.offset, item.tensor.bytes);
  } else {
    read = spool_.payload(item.frame);
    spread = read;
  }
  if (!extent.is_recorded_row_major(spread.size())) {
    memory.resize(static_cast<size_t>(extent.dense));
    tensors::copy_row_major(spread.data(), tensor.shape, tensor.strides, kernels::bytes_of(tensor.type), memory.data());
    return memory;
  }
  if (item.tensor.block >= 0) return spread;
  memory = std::move(read);
  return memory;
}

// Returns whether the bytes fit into a quarter of the memory: a block may be twice as large as the tensors in it, as
// zeros are not copied, and the larger part must stay free for further calls. So must half of the blocks.
bool Payloads::may_stay(uint64_t bytes) const {
  return ring_ && kept_blocks_.size() < spool::RingHeader::kBlocks / 2 &&
         kept_bytes_ + bytes <= ring_->most_bytes() / 4;
}

// A block stays for all tensors in it or for none: each alone would hold the memory of all.
void Payloads::keep(std::vector<Item>& items) {
  std::map<int64_t, uint64_t> blocks;  // bytes in them
  for (const Item& item : items) {
    const bool is_new = !item.own && item.tensor.block >= 0 && !kept_blocks_.contains(item.tensor.block);
    if (is_new) blocks[item.tensor.block] += item.tensor.bytes;
  }
  for (const auto& [block, bytes] : blocks) {
    if (!may_stay(bytes)) continue;
    kept_blocks_[block] = bytes;
    kept_bytes_ += bytes;
  }
  for (Item& item : items) {
    if (item.own || item.tensor.block < 0 || kept_blocks_.contains(item.tensor.block)) continue;
    std::vector<std::byte> memory;
    const auto whole = bytes(item, memory);
    if (memory.empty()) memory.assign(whole.begin(), whole.end());
    release(item);
    item.own = std::make_shared<const std::vector<std::byte>>(std::move(memory));
  }
}

void Payloads::use(const Item& item) {
  if (item.own) return;
  if (item.tensor.block >= 0) {
    ++users_of_block_[item.tensor.block];
  } else {
    ++users_of_frame_[item.frame.begin];
  }
}

void Payloads::release(const Item& item) {
  if (item.own) return;
  if (item.tensor.block < 0) {
    if (--users_of_frame_[item.frame.begin] > 0) return;
    users_of_frame_.erase(item.frame.begin);
    if (release_) spool_.release(item.frame);
  } else if (--users_of_block_[item.tensor.block] == 0) {
    users_of_block_.erase(item.tensor.block);
    if (const auto kept = kept_blocks_.find(item.tensor.block); kept != kept_blocks_.end()) {
      kept_bytes_ -= kept->second;
      kept_blocks_.erase(kept);
    }
    if (ring_) ring_->release(static_cast<uint32_t>(item.tensor.block));
  }
}

}  // namespace msda::record
