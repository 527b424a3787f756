// Knows which 32-bit words of the program's device memory nobody has written since they were allocated, as far as the
// hooks and the survey see. What is not known counts as written, so that no kernel is accused wrongly. Kept on the
// host: a bit for each word of allocations that are written in part. Thread-safe; none of its functions throws.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "recorder/preload/driver/copy_layout.h"
#include "recorder/preload/driver/digester.h"

namespace msda::record {

class Unwritten {
 public:
  // The words of an allocation.
  struct Words {
    uint64_t all = 0, count = 0;  // count: words that nobody wrote
    std::vector<uint32_t> bits;   // of each word: set if nobody wrote it; empty: nobody wrote any
  };

  // Adds memory that only the hooks' functions and launches write: neither the host nor another process reaches it.
  void allocated(const DeviceRange& range) noexcept;
  void freed(uint64_t address) noexcept;
  // A copy or a memset writes this range. Words of which it writes a part count as written.
  void written(const DeviceRange& range) noexcept;
  // Rows of so many bytes, at multiples of the pitch, are written.
  void written_rows(const DeviceRange& row, uint64_t pitch, uint64_t rows) noexcept;
  // Notes what a copy writes.
  template <class Copy>
  void copied(const Copy& copy) noexcept {
    cuda::for_each_layer(copy, copy.to, [this](uint64_t address, uint64_t bytes, uint64_t pitch, uint64_t rows) {
      written_rows({address, bytes}, pitch, rows);
    });
  }
  // Somebody wrote, nobody knows where.
  void all_written() noexcept;

  // Returns the words of the allocation that the range is, or begins with: drivers round sizes up. Returns nothing if
  // all of it is written, or it is not known.
  std::optional<Words> words_of(const DeviceRange& range) const;
  // Leaves at most these words of the allocation at that address unwritten; it may have fewer words than there are
  // bits.
  void leave(uint64_t address, Words words) noexcept;

 private:
  struct Allocation {
    uint64_t bytes = 0;
    Words unwritten;
  };
  void mark(const DeviceRange& range);

  mutable std::mutex mutex_;
  std::map<uint64_t, Allocation> allocations_;  // with unwritten words, by address
};

// The unwritten words of the allocation at an address.
struct UnwrittenMemory {
  uint64_t address = 0;
  Unwritten::Words words;
};

inline constexpr uint64_t kWordBytes = 4, kWordsInBits = 32;  // bytes of memory; words that a word of bits has
// Returns how many words of bits so many words take.
constexpr uint64_t words_of_bits(uint64_t words) { return (words + kWordsInBits - 1) / kWordsInBits; }

}  // namespace msda::record
