// The parameters of a launch, and which of their words are addresses.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "recorder/preload/trail/memory_map.h"
#include "recorder/spool/messages.h"

namespace msda::record {

inline constexpr size_t kWord = sizeof(uint64_t);
// Returns the word at this offset; bytes beyond the end count as 0.
inline uint64_t word_in(std::span<const std::byte> bytes, size_t offset) {
  uint64_t word = 0;
  const size_t left = bytes.size() - offset;
  if (left >= kWord) {  // copying a constant number of bytes is a single instruction, and each launch does it often
    std::memcpy(&word, bytes.data() + offset, kWord);
  } else {
    std::memcpy(&word, bytes.data() + offset, left);
  }
  return word;
}

// An address among the parameters.
struct PointerWord {
  uint32_t offset = 0;  // of the word in the parameters
  uint64_t address = 0;
  MemoryMap::Region region;
};

struct LaunchWords {
  std::vector<std::byte> bytes;  // with TrailRow::kAddress in place of words that are addresses
  std::vector<PointerWord> pointers;
  uint64_t place = 0;  // a hash of the addresses
  // Words may differ next time, though version_of_words() is the same.
  bool is_passing = false;
};

// A launch of the same kernel, found at the same version_of_words(), and its parameters.
struct EarlierWords {
  std::span<const std::byte> parameters;
  const LaunchWords* words = nullptr;  // null: there is none
};

// Finds the 8-byte words, at multiples of 8, that are addresses of devices' memory or of the process' memory. Words
// that equal those of an earlier launch are not looked up again. Call it after memory.enter().
LaunchWords words_of(std::vector<std::byte> parameters, MemoryMap& memory, const EarlierWords& earlier = {});

// Returns whether the word is such an address. Call it after memory.enter().
bool is_address(uint64_t word, MemoryMap& memory);

// Returns a number that changes whenever equal parameters may have other words.
uint64_t version_of_words(const MemoryMap& memory);

}  // namespace msda::record
