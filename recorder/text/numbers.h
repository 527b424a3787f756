// Numbers that a person typed: read whole, or not at all.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

namespace msda::text {

// Nothing if the text is not one number of this type from its first character to its last, or does not fit the type.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// Bytes: "500000", or with a unit after at most one space, as the GNU tools have them: K, M, G, T and KiB to TiB are
// powers of 1024, KB to TB powers of 1000, in upper or lower case. Nothing for any other text and for what 64 bits do
// not hold.
std::optional<uint64_t> parse_size(std::string_view text);

}  // namespace msda::text
