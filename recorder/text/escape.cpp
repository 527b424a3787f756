#include "recorder/text/escape.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace msda::text {
namespace {

struct CodePoint {
  uint32_t value;
  size_t bytes;  // 0: not UTF-8
};

// Returns the first code point, by Unicode's table of well-formed sequences: no surrogates, no overlong forms.
CodePoint first_code_point(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const size_t bytes = lead >= 0xc2 && lead < 0xe0   ? 2
                       : lead >= 0xe0 && lead < 0xf0 ? 3
                       : lead >= 0xf0 && lead < 0xf5 ? 4
                                                     : 0;
  if (bytes == 0 || text.size() < bytes) return {lead, 0};
  uint32_t value = lead & (0x7fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {lead, 0};
    value = value << 6 | (byte(i) & 0x3f);
  }
  const bool too_long = (bytes == 3 && value < 0x800) || (bytes == 4 && value < 0x10000);
  const bool surrogate = value >= 0xd800 && value < 0xe000;
  if (too_long || surrogate || value > 0x10ffff) return {lead, 0};
  return {value, bytes};
}

// Returns true for control characters beyond ASCII: C1, line and paragraph separators, and changes of writing
// direction.
bool is_unicode_control(uint32_t value) {
  constexpr std::pair<uint32_t, uint32_t> kRanges[] = {{0x80, 0x9f},     {0x61c, 0x61c},   {0x200e, 0x200f},
                                                       {0x2028, 0x202e}, {0x2066, 0x2069}, {0xfeff, 0xfeff}};
  return std::ranges::any_of(kRanges, [value](const auto& r) { return r.first <= value && value <= r.second; });
}

void append_hex(std::string& text, uint32_t value, int digits) {
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) text += "0123456789abcdef"[value >> shift & 15];
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const auto [value, bytes] = first_code_point(text);
    if (value == '\n') {
      result += "\\n";
    } else if (value == '\t') {
      result += "\\t";
    } else if (bytes == 0 || value < 0x20 || value == 0x7f) {
      append_hex(result += "\\x", value, 2);
    } else if (is_unicode_control(value)) {
      append_hex(result += "\\u", value, 4);
    } else {
      result += text.substr(0, bytes);
    }
    text.remove_prefix(std::max<size_t>(bytes, 1));
  }
  return result;
}

}  // namespace msda::text
