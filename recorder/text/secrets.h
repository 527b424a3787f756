// Recognizes environment variables whose values may be secret, by their names.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>

namespace msda::text {

// Returns whether the name has KEY, TOKEN, SECRET, PASS or CRED in it, in upper or lower case.
inline bool names_a_secret(std::string_view variable) {
  std::string name(variable);
  std::ranges::transform(name, name.begin(),
                         [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  return std::ranges::any_of(std::initializer_list<std::string_view>{"KEY", "TOKEN", "SECRET", "PASS", "CRED"},
                             [&](std::string_view word) { return name.find(word) != std::string::npos; });
}

}  // namespace msda::text
