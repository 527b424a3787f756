// Counts and their nouns, as a sentence has them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace msda::text {

// Returns the noun for so many: "kernel", "kernels"; "launch", "launches"; "query", "queries"; "survey", "surveys".
inline std::string plural(int64_t count, std::string_view noun) {
  std::string text(noun);
  if (count == 1) return text;
  if (noun.ends_with("ch") || noun.ends_with("s")) return text + "es";
  if (!noun.ends_with("y") || noun.ends_with("ey")) return text + "s";
  text.back() = 'i';
  return text + "es";
}

// Returns "1 kernel", "2 kernels".
inline std::string counted(int64_t count, std::string_view noun) {
  return std::to_string(count) + " " + plural(count, noun);
}

// Returns "roses, tulips and lilies".
inline std::string listed(std::span<const std::string_view> words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    text += i == 0 ? "" : i + 1 < words.size() ? ", " : " and ";
    text += words[i];
  }
  return text;
}

}  // namespace msda::text
