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

  // Whether the bytes can be had: those in the memory of a target that is gone cannot.
  bool has(const Item& item) const { return item.tensor.block < 0 || item.own || ring_; }
  // The tensor, row-major; `memory` holds it where it does not lie somewhere already. Throws spool::Error if the sizes
  // do not fit each other.
  std::span<const std::byte> bytes(const Item& item, std::vector<std::byte>& memory);
  // How many bytes that will be. Throws spool::Error for a shape that cannot be.
  static int64_t row_major_bytes(const spool::TensorDescription& tensor);
  // Whether the spool holds the bytes, and goes on to hold them when this process ends.
  static bool in_spool(const Item& item) { return item.tensor.block < 0 && !item.own; }
  // Takes the bytes into this process and lets go of where they were.
  void take(Item& item);
  void release(const Item& item);
  // A block that tensors lie in; given back when each of them has been released.
  void arrived(const Item& item);

 private:
  const spool::Follower& spool_;
  std::unique_ptr<spool::RingReader> ring_;
  std::map<int64_t, int64_t> tensors_in_block_;
  bool release_;
};

}  // namespace msda::record
