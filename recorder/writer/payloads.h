// The bytes of spooled tensors: in the spool, in memory shared with the target, or copied into this process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "recorder/spool/follower.h"
#include "recorder/spool/ring.h"

namespace msda::record {

struct Item {
  spool::Tensor tensor;
  spool::Frame frame;
  std::shared_ptr<const std::vector<std::byte>> own;  // if copied into this process: row-major
};

class Payloads {
 public:
  // `shared_memory` is the descriptor of the memory shared with the target, or -1. Throws spool::Error.
  Payloads(const spool::Follower& spool, int shared_memory, bool release);
  ~Payloads();
  Payloads(const Payloads&) = delete;
  Payloads& operator=(const Payloads&) = delete;

  // Returns whether the bytes are available. Bytes in the shared memory of an earlier process are not.
  bool has(const Item& item) const { return item.tensor.block < 0 || item.own || ring_; }
  // Checks the tensors of one call that are larger than their stored bytes (zeros and repeated elements): their size
  // must be plausible beside the others. Throws spool::Error if it is not.
  static void check_sizes(const std::vector<Item>& items);
  // Returns the tensor, row-major; `memory` holds it unless it exists in this form already. Throws spool::Error if the
  // bytes are gone.
  std::span<const std::byte> bytes(const Item& item, std::vector<std::byte>& memory);
  // Returns the size of the tensor in row-major form.
  static int64_t row_major_bytes(const tensors::Description& tensor);
  // Returns whether the bytes are in the spool, where they outlive this process.
  static bool in_spool(const Item& item) { return item.tensor.block < 0 && !item.own; }
  // Prepares a call's items for being held long: leaves their bytes in the shared memory, or copies them into this
  // process if the target would run short of shared memory.
  void keep(std::vector<Item>& items);
  // Registers a user of the item's bytes in place, until release().
  void use(const Item& item);
  void release(const Item& item);
  // Answers the target, if it shares memory with this process.
  void answer(const spool::CutDone& cut) {
    if (ring_) ring_->answer(cut);
  }
  // Returns the launches for which the target found no room in the shared memory.
  spool::Missing missing() const { return ring_ ? ring_->missing() : spool::Missing{}; }

 private:
  std::span<const std::byte> zeros(size_t size);
  bool may_stay(uint64_t bytes) const;

  const spool::Follower& spool_;
  std::unique_ptr<spool::RingReader> ring_;
  std::map<int64_t, int64_t> users_of_block_;
  std::map<int64_t, uint64_t> kept_blocks_;     // bytes of blocks that are held for long
  uint64_t kept_bytes_ = 0;                     // in all of them
  std::map<uint64_t, int64_t> users_of_frame_;  // by the frame's offset
  bool release_;
  std::vector<std::span<const std::byte>> zeros_;  // each larger than the one before
};

}  // namespace msda::record
