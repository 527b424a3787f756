// Kernels that a call enqueues, with their parameters, and what each of them waits for.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace msda::kernels::cuda {

struct Launch {
  const char* name;  // for error messages
  const void* kernel;
  dim3 grid;
  int threads;
  int64_t shared_bytes;
};

class Sequence {
 public:
  static constexpr size_t kMost = 32;

  // The kernel begins when those before it have ended. There must be room: size() < kMost.
  template <class... Parameters>
  void add(const Launch& launch, const Parameters&... parameters) {
    static_assert(((alignof(Parameters) <= kAlignment) && ...));
    begin(launch);
    (append(&parameters, sizeof(parameters), alignof(Parameters)), ...);
    end_ = {uint32_t{1} << (size() - 1), cleared_};
  }
  // What `first` and `second` add are branches: neither waits for the other, and what is added next waits for both.
  template <class First, class Second>
  void beside(First&& first, Second&& second) {
    const End before = end_;
    std::forward<First>(first)();
    const End end_of_first = end_;
    end_ = before;
    std::forward<Second>(second)();
    end_ = {still_here(end_) | still_here(end_of_first), cleared_};
  }
  // Continues after what has been enqueued by now, also within branches.
  void clear();
  void swap_kernels(Sequence& sequence);

  size_t size() const { return nodes_.size(); }
  const Launch& launch(size_t node) const { return nodes_[node].launch; }
  // Returns the kernels that it waits for: bit i is node i.
  uint32_t waits_for(size_t node) const { return nodes_[node].waits_for; }
  // Returns pointers to the values, as CUDA takes them, valid until the next call of this function.
  void** parameters(size_t node);

  // Numbers that identify a sequence among many without a look at those. Other sequences, and other seeds, have other
  // numbers, except with a chance of one in 2^64.
  struct Digests {
    uint64_t shape;  // of what has_shape_of() compares
    uint64_t whole;  // also of what is_same() compares
  };
  Digests digests(uint64_t seed) const;

  // Returns whether the kernels of both, one after the other, wait for the same ones.
  bool has_shape_of(const Sequence& sequence) const;
  // Returns whether a kernel and its parameters are the same, bit for bit.
  bool is_same(size_t node, const Sequence& sequence) const;

 private:
  static constexpr size_t kAlignment = 16;  // of a kernel's parameters
  struct Node {
    Launch launch;
    uint32_t waits_for;
    size_t first_offset, first_byte;
  };
  // The kernels that the next one waits for; none if the sequence has been cleared since.
  struct End {
    uint32_t nodes = 0;
    int cleared = 0;
  };
  uint32_t still_here(const End& end) const { return end.cleared == cleared_ ? end.nodes : 0; }
  void begin(const Launch& launch);
  void append(const void* value, size_t bytes, size_t alignment);
  size_t end_of_offsets(size_t node) const;
  size_t end_of_bytes(size_t node) const;

  std::vector<Node> nodes_;
  std::vector<size_t> offsets_;   // of each parameter in bytes_
  std::vector<std::byte> bytes_;  // the parameters' values
  std::vector<void*> pointers_;
  End end_;
  int cleared_ = 0;
};

}  // namespace msda::kernels::cuda
