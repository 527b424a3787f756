#include "recorder/preload/survey/unwritten_text.h"

#include <algorithm>
#include <bit>

namespace msda::record {
namespace {

constexpr size_t kMostTextOfRuns = size_t{16} << 10;  // an attribute of a capture has 64 KiB at most

// Returns the first of these words from one on that is unwritten, or is not; the number of all if there is none.
uint64_t next(const Unwritten::Words& words, uint64_t from, bool is_unwritten) {
  if (words.bits.empty()) return is_unwritten ? from : words.all;
  while (from < words.all) {
    const uint32_t bits = is_unwritten ? words.bits[from / kWordsInBits] : ~words.bits[from / kWordsInBits];
    const uint32_t rest = bits >> (from % kWordsInBits);
    if (rest != 0) return std::min(words.all, from + static_cast<uint64_t>(std::countr_zero(rest)));
    from += kWordsInBits - from % kWordsInBits;
  }
  return words.all;
}

}  // namespace

// Returns whether the run continues the series.
bool UnwrittenText::Series::take(uint64_t run, uint64_t size) {
  if (count == 0) {
    *this = {run, size, 1, 0};
    return true;
  }
  if (size != bytes || (count > 1 && run != offset + count * stride)) return false;
  stride = count > 1 ? stride : run - offset;
  ++count;
  return true;
}

void UnwrittenText::put(const std::string& tensor, const Series& series) {
  if (series.count == 0) return;
  std::string entry =
      (text_.empty() ? "" : " ") + tensor + "@" + std::to_string(series.offset) + ":" + std::to_string(series.bytes);
  if (series.count > 1) entry += "*" + std::to_string(series.count) + "/" + std::to_string(series.stride);
  if (text_.size() + entry.size() > kMostTextOfRuns) {
    left_out_ += series.count * series.bytes;
  } else {
    text_ += entry;
  }
}

void UnwrittenText::add(const std::string& tensor, const Unwritten::Words& words, uint64_t begin, uint64_t end) {
  Series series;
  uint64_t word = next(words, begin / kWordBytes, true);
  while (word < words.all && word * kWordBytes < end) {
    const uint64_t last = next(words, word, false);
    const uint64_t from = std::max(word * kWordBytes, begin), to = std::min(last * kWordBytes, end);
    if (!series.take(from - begin, to - from)) {
      put(tensor, series);
      series = {};
      series.take(from - begin, to - from);
    }
    word = next(words, last, true);
  }
  put(tensor, series);
}

}  // namespace msda::record
