#include "kernels/cuda/common/sequence.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <tuple>
#include <type_traits>

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

void Sequence::swap_kernels(Sequence& sequence) {
  nodes_.swap(sequence.nodes_);
  offsets_.swap(sequence.offsets_);
  bytes_.swap(sequence.bytes_);
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

Sequence::Digests Sequence::digests(uint64_t seed) const {
  struct Numbers {  // without gaps
    uint64_t kernel, shared_bytes, bytes;
    uint32_t x, y, z, threads;
  };
  static_assert(std::has_unique_object_representations_v<Numbers>);
  const size_t count = size();
  uint32_t shape[kMost];
  Numbers kernels[kMost];
  for (size_t i = 0; i < count; ++i) {
    const Launch& launched = launch(i);
    shape[i] = waits_for(i);
    kernels[i] = {.kernel = reinterpret_cast<uintptr_t>(launched.kernel),
                  .shared_bytes = static_cast<uint64_t>(launched.shared_bytes),
                  .bytes = end_of_bytes(i) - nodes_[i].first_byte,
                  .x = launched.grid.x,
                  .y = launched.grid.y,
                  .z = launched.grid.z,
                  .threads = static_cast<uint32_t>(launched.threads)};
  }
  const uint64_t of_shape = XXH3_64bits_withSeed(shape, count * sizeof(*shape), seed);
  const uint64_t parts[] = {XXH3_64bits_withSeed(kernels, count * sizeof(*kernels), of_shape),
                            XXH3_64bits(bytes_.data(), bytes_.size())};  // the longest, which a seed would slow down
  return {of_shape, XXH3_64bits(parts, sizeof(parts))};
}

bool Sequence::has_shape_of(const Sequence& sequence) const {
  return std::equal(nodes_.begin(), nodes_.end(), sequence.nodes_.begin(), sequence.nodes_.end(),
                    [](const Node& a, const Node& b) { return a.waits_for == b.waits_for; });
}

bool Sequence::is_same(size_t node, const Sequence& sequence) const {
  const auto parts = [](const Launch& a) {
    return std::tuple(a.kernel, a.grid.x, a.grid.y, a.grid.z, a.threads, a.shared_bytes);
  };
  const Node &mine = nodes_[node], &its = sequence.nodes_[node];
  const size_t bytes = end_of_bytes(node) - mine.first_byte;
  return parts(mine.launch) == parts(its.launch) && sequence.end_of_bytes(node) - its.first_byte == bytes &&
         std::memcmp(bytes_.data() + mine.first_byte, sequence.bytes_.data() + its.first_byte, bytes) == 0;
}

}  // namespace msda::kernels::cuda
