// Parses numbers that a person typed.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

namespace msda::text {

// Returns nothing unless the whole text is one number that fits the type.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// Returns a number of bytes: "500000", or with a unit after at most one space, as in the GNU tools: K, M, G, T and KiB
// to TiB are powers of 1024, KB to TB powers of 1000, in upper or lower case. Nothing for any other text and for
// numbers beyond 64 bits.
std::optional<uint64_t> parse_size(std::string_view text);

}  // namespace msda::text
