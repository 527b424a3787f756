#include "recorder/preload/trail/launch_words.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>

namespace msda::record {
namespace {

// Addresses of the process' own memory, such as its stacks and heaps, differ from run to run. A word that may be one is
// looked up in the list of mappings. Reading that list takes milliseconds, so it is read anew ever more seldom.
class Mappings {
 public:
  bool has(uint64_t word) {
    constexpr uint64_t kLeast = uint64_t{0x5000} << 32, kEnd = uint64_t{1} << 47;  // PIE programs, and above
    if (word < kLeast || word >= kEnd) return false;
    if (is_in(word)) return true;
    ++misses_;
    if (misses_ < next_) return false;
    next_ = 2 * misses_;
    read();
    return is_in(word);
  }
  // How often the mappings were read: between two readings the answers stay the same.
  uint64_t readings() const { return readings_; }

 private:
  bool is_in(uint64_t word) const {
    const auto after = std::ranges::upper_bound(ranges_, word, {}, &Range::begin);
    return after != ranges_.begin() && word < std::prev(after)->end;
  }

  void read() {
    std::FILE* file = std::fopen("/proc/self/maps", "re");
    if (file == nullptr) return;
    ranges_.clear();
    ++readings_;
    char line[512];
    while (std::fgets(line, sizeof line, file) != nullptr) {
      unsigned long long begin = 0, end = 0;
      if (std::sscanf(line, "%llx-%llx", &begin, &end) != 2) continue;
      if (!ranges_.empty() && ranges_.back().end == begin) {
        ranges_.back().end = end;
      } else {
        ranges_.push_back({begin, end});
      }
    }
    std::fclose(file);
  }

  struct Range {
    uint64_t begin, end;
  };
  std::vector<Range> ranges_;  // in their order, adjacent ones as one
  uint64_t misses_ = 0, next_ = 1, readings_ = 0;
};

Mappings& mappings() {
  static constinit Mappings* mappings = nullptr;  // never destroyed: launches come until the very end
  if (mappings == nullptr) mappings = new Mappings;
  return *mappings;
}

// Below that no driver has memory that several devices see.
constexpr uint64_t kLeastAddress = uint64_t{1} << 32;

}  // namespace

bool is_address(uint64_t word, MemoryMap& memory) {
  return word >= kLeastAddress && (memory.find(word) || mappings().has(word));
}

LaunchWords words_of(std::vector<std::byte> parameters, MemoryMap& memory, const EarlierWords& earlier) {
  Mappings& of_process = mappings();
  const uint64_t passing_before = memory.passing();
  LaunchWords words;
  words.bytes = std::move(parameters);
  const bool has_earlier = earlier.words != nullptr && earlier.parameters.size() == words.bytes.size();
  size_t pointer = 0;  // of the earlier launch
  for (size_t at = 0; at + kWord <= words.bytes.size(); at += kWord) {
    const uint64_t word = word_in(words.bytes, at);
    if (word < kLeastAddress) continue;
    if (has_earlier && word_in(earlier.parameters, at) == word) {
      if (word_in(earlier.words->bytes, at) == word) continue;  // no address
      const auto& pointers = earlier.words->pointers;
      while (pointer < pointers.size() && pointers[pointer].offset < at) ++pointer;
      if (pointer < pointers.size() && pointers[pointer].offset == at) words.pointers.push_back(pointers[pointer]);
    } else {
      const auto region = memory.find(word);
      if (!region && !of_process.has(word)) continue;
      if (region) words.pointers.push_back({static_cast<uint32_t>(at), word, *region});
    }
    words.place = (words.place ^ word) * 0x9E3779B97F4A7C15;
    std::memcpy(words.bytes.data() + at, &spool::TrailRow::kAddress, kWord);
  }
  words.is_passing = memory.passing() != passing_before;
  return words;
}

uint64_t version_of_words(const MemoryMap& memory) { return memory.version() + mappings().readings(); }

}  // namespace msda::record
