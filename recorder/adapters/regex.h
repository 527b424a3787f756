// <regex>, without a false warning of GCC 12 and later: with a sanitizer, GCC takes the std::function in a moved
// automaton state for uninitialized (https://gcc.gnu.org/bugzilla/show_bug.cgi?id=105562). And patterns for kernels'
// names.
#pragma once
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <regex>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#include <string>

namespace msda::adapters {

// The pattern with which std::regex_match() finds `pattern` anywhere in a name. Throws std::regex_error.
//
// Matched breadth first: depth first needs stack for every character of a name, and names are long. In one pass: a
// search would start anew at each character. libc++ needs no stack, and gives up a match that takes too long.
inline std::regex pattern_in_names(const std::string& pattern) {
#ifdef __GLIBCXX__
  constexpr auto kHow = std::regex::ECMAScript | std::regex_constants::__polynomial;
#else
  constexpr auto kHow = std::regex::ECMAScript;
#endif
  const std::regex alone(pattern, kHow);  // or an extra parenthesis would close the added group
  return std::regex(".*(?:" + pattern + ").*", kHow);
}

}  // namespace msda::adapters
