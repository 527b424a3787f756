// The parameters of a launch, with what are addresses in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "recorder/preload/trail/memory_map.h"
#include "recorder/spool/messages.h"

namespace msda::record {

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
  // Words may be other ones next time, though version_of_words() is the same.
  bool is_passing = false;
};

// Finds the words of 8 bytes, at multiples of 8, that are addresses of devices' memory or of memory of the process.
// After memory.enter().
LaunchWords words_of(std::vector<std::byte> parameters, MemoryMap& memory);

// Another number whenever equal parameters may have other words.
uint64_t version_of_words(const MemoryMap& memory);

}  // namespace msda::record
