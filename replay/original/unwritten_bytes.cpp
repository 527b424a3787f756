#include "replay/original/unwritten_bytes.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "replay/original/relaunch.h"

namespace msda::replay {
namespace {

// Takes a number from the front, after this character.
bool take_number(std::string_view& text, char before, uint64_t& number) {
  if (text.empty() || text.front() != before) return false;
  const auto [end, error] = std::from_chars(text.data() + 1, text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

// "@3600:400", or "@80:40*99/120"
bool read_series(std::string_view text, UnwrittenBytes& series) {
  if (!take_number(text, '@', series.offset) || !take_number(text, ':', series.bytes) || series.bytes == 0)
    return false;
  if (text.empty()) return true;
  return take_number(text, '*', series.count) && take_number(text, '/', series.stride) && text.empty() &&
         series.count > 0 && series.stride >= series.bytes;
}

}  // namespace

std::map<std::string, std::vector<UnwrittenBytes>> parse_unwritten(const std::string& text) {
  std::map<std::string, std::vector<UnwrittenBytes>> found;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size()), at = std::min(text.find('@', begin), end);
    UnwrittenBytes series;
    if (!read_series(std::string_view(text).substr(at, end - at), series)) {
      refuse_relaunch("its attribute unwritten cannot be read: {}",
                      text.substr(begin, std::min(end - begin, size_t{80})));
    }
    found[text.substr(begin, at - begin)].push_back(series);
    begin = end + 1;
  }
  return found;
}

bool lie_within(std::span<const UnwrittenBytes> all, uint64_t bytes) {
  return std::ranges::all_of(all, [&](const UnwrittenBytes& series) {
    uint64_t last = 0, end = 0;
    return !__builtin_mul_overflow(series.count - 1, series.stride, &last) &&
           !__builtin_add_overflow(last, series.offset, &last) && !__builtin_add_overflow(last, series.bytes, &end) &&
           end <= bytes;
  });
}

}  // namespace msda::replay
