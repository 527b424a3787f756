#include "recorder/text/closest.h"

#include <algorithm>
#include <vector>

namespace msda::text {
namespace {

// Returns the optimal string alignment distance. Both words are short: the caller has checked.
size_t mistakes(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> table(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) table[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) table[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = table[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
      table[i][j] = std::min({table[i - 1][j] + 1, table[i][j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        table[i][j] = std::min(table[i][j], table[i - 2][j - 2] + 1);
      }
    }
  }
  return table[a.size()][b.size()];
}

}  // namespace

std::string closest(std::string_view word, std::span<const std::string> candidates) {
  constexpr size_t kShortest = 3, kLongest = 64;
  std::string best;
  if (word.size() < kShortest || word.size() > kLongest) return best;
  size_t fewest = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    if (candidate.empty() || candidate.size() > kLongest) continue;
    const size_t count = candidate.starts_with(word) ? 1 : mistakes(word, candidate);
    if (count >= fewest) continue;
    fewest = count;
    best = candidate;
  }
  return best;
}

}  // namespace msda::text
