#include "recorder/text/numbers.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <string>

namespace msda::text {

std::optional<uint64_t> parse_size(std::string_view text) {
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto number = parse_number<uint64_t>(text.substr(0, digits));
  if (!number) return std::nullopt;
  std::string unit(text.substr(digits));
  if (unit.starts_with(' ')) unit.erase(0, 1);
  std::ranges::transform(unit, unit.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  if (unit.empty() || unit == "B") return number;
  const size_t power = std::string_view("KMGT").find(unit[0]);
  const std::string_view tail = std::string_view(unit).substr(1);
  if (power == std::string_view::npos || !(tail.empty() || tail == "B" || tail == "IB")) return std::nullopt;
  uint64_t bytes = *number;
  for (size_t i = 0; i <= power; ++i) {
    if (__builtin_mul_overflow(bytes, tail == "B" ? 1000u : 1024u, &bytes)) return std::nullopt;
  }
  return bytes;
}

}  // namespace msda::text
