// Where the bytes of spooled tensors are: in the spool, in memory shared with the target, or taken into this process.
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
  std::shared_ptr<const std::vector<std::byte>> own;  // if taken: row-major
};

class Payloads {
 public:
  // `shared_memory` is the descriptor of the memory shared with the target, or -1. Throws spool::Error.
  Payloads(const spool::Follower& spool, int shared_memory, bool release);
  ~Payloads();
  Payloads(const Payloads&) = delete;
  Payloads& operator=(const Payloads&) = delete;

  // Whether the bytes can be had: those in the memory of a target that is gone cannot.
  bool has(const Item& item) const { return item.tensor.block < 0 || item.own || ring_; }
  // Of one call's tensors, whether those that are larger than their bytes, zeros and elements that repeat, are of a
  // size that goes with the rest. Throws spool::Error if not.
  static void check_sizes(const std::vector<Item>& items);
  // The tensor, row-major; `memory` holds it where it does not lie somewhere already. Throws spool::Error if the bytes
  // are not there any more.
  std::span<const std::byte> bytes(const Item& item, std::vector<std::byte>& memory);
  // How many bytes that will be.
  static int64_t row_major_bytes(const spool::TensorDescription& tensor);
  // Whether the spool holds the bytes, and goes on to hold them when this process ends.
  static bool in_spool(const Item& item) { return item.tensor.block < 0 && !item.own; }
  // For an item that is kept for long: leaves its bytes in the shared memory, or takes them out of it into this process
  // where the target would be short of memory.
  void keep(Item& item);
  // Tells of somebody who needs the item's bytes where they are, until release().
  void use(const Item& item);
  void release(const Item& item);

 private:
  std::span<const std::byte> zeros(size_t size);
  bool may_stay(const Item& item) const;

  const spool::Follower& spool_;
  std::unique_ptr<spool::RingReader> ring_;
  std::map<int64_t, int64_t> users_of_block_;
  std::map<int64_t, uint64_t> kept_blocks_;     // bytes of those that are kept for long
  uint64_t kept_bytes_ = 0;                     // in all of them
  std::map<uint64_t, int64_t> users_of_frame_;  // by where it begins
  bool release_;
  std::vector<std::span<const std::byte>> zeros_;  // each larger than the one before
};

}  // namespace msda::record
