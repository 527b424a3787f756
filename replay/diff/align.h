// Aligns two sequences of tokens that are mostly alike, such as the launches of two runs: millions of elements, long
// loops of equal tokens, insertions and replaced stretches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace msda::replay {

struct Sequence {
  std::vector<uint32_t> coarse;   // elements may be paired if these are equal
  std::vector<uint32_t> fine;     // equal only if the coarse ones are; such pairs are better
  std::vector<uint64_t> content;  // pairs of equal content are the best; 0 is unknown, and equals nothing
  size_t size() const { return coarse.size(); }
};

// So many elements of each are paired, one by one, from these positions on.
struct AlignedRun {
  size_t a, b, count;
};

// Returns the runs, ascending in both; elements between two runs have no partner. Content does not decide whether
// tokens of equal structure are paired, but where in a loop something was inserted.
std::vector<AlignedRun> align(const Sequence& a, const Sequence& b);

}  // namespace msda::replay
