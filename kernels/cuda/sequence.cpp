#include "kernels/cuda/sequence.h"

#include <algorithm>
#include <cstring>
#include <tuple>

namespace msda::kernels::cuda {
namespace {
size_t aligned(size_t bytes, size_t alignment) { return (bytes + alignment - 1) / alignment * alignment; }
}  // namespace

void Sequence::begin(const Launch& launch) {
  if (nodes_.empty()) {  // a usual call's
    nodes_.reserve(8);
    offsets_.reserve(64);
    bytes_.reserve(16 << 10);
  }
  bytes_.resize(aligned(bytes_.size(), kAlignment));
  nodes_.push_back({launch, still_here(end_), offsets_.size(), bytes_.size()});
}

void Sequence::append(const void* value, size_t bytes, size_t alignment) {
  const size_t at = aligned(bytes_.size(), alignment);
  bytes_.resize(at + bytes);  // gaps are zeros, so that equal parameters are equal bit for bit
  std::memcpy(&bytes_[at], value, bytes);
  offsets_.push_back(at);
}

void Sequence::clear() {
  nodes_.clear();
  offsets_.clear();
  bytes_.clear();
  ++cleared_;
}

void Sequence::swap_kernels(Sequence& other) {
  nodes_.swap(other.nodes_);
  offsets_.swap(other.offsets_);
  bytes_.swap(other.bytes_);
}

size_t Sequence::end_of_offsets(size_t node) const {
  return node + 1 < size() ? nodes_[node + 1].first_offset : offsets_.size();
}
size_t Sequence::end_of_bytes(size_t node) const {
  return node + 1 < size() ? nodes_[node + 1].first_byte : bytes_.size();
}

void** Sequence::parameters(size_t node) {
  pointers_.clear();
  for (size_t i = nodes_[node].first_offset; i < end_of_offsets(node); ++i) pointers_.push_back(&bytes_[offsets_[i]]);
  return pointers_.data();
}

bool Sequence::has_shape_of(const Sequence& other) const {
  return std::equal(nodes_.begin(), nodes_.end(), other.nodes_.begin(), other.nodes_.end(),
                    [](const Node& a, const Node& b) { return a.waits_for == b.waits_for; });
}

bool Sequence::is_same(size_t node, const Sequence& other) const {
  const auto parts = [](const Launch& a) {
    return std::tuple(a.kernel, a.grid.x, a.grid.y, a.grid.z, a.threads, a.shared_bytes);
  };
  const Node &mine = nodes_[node], &its = other.nodes_[node];
  const size_t bytes = end_of_bytes(node) - mine.first_byte;
  return parts(mine.launch) == parts(its.launch) && other.end_of_bytes(node) - its.first_byte == bytes &&
         std::memcmp(bytes_.data() + mine.first_byte, other.bytes_.data() + its.first_byte, bytes) == 0;
}

}  // namespace msda::kernels::cuda
