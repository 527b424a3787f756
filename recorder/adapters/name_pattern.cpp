#include "recorder/adapters/name_pattern.h"

// GCC 12 and later, with a sanitizer, takes the std::function in a moved automaton state for uninitialized
// (https://gcc.gnu.org/bugzilla/show_bug.cgi?id=105562).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <regex>
#include <stdexcept>
#include <string_view>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

namespace msda::adapters {
namespace {

// Returns the plain text that every match begins with.
std::string literal_of(const std::string& pattern) {
  const size_t end = pattern.find_first_of("^$\\.*+?()[]{}|");
  if (end == pattern.npos) return pattern;
  if (pattern.find('|') != pattern.npos) return "";
  const bool repeats = std::string_view("*+?").find(pattern[end]) != std::string_view::npos;
  return pattern.substr(0, repeats && end > 0 ? end - 1 : end);
}

}  // namespace

struct NamePattern::Automaton {
  std::regex regex;
};

NamePattern::NamePattern(const std::string& pattern) {
  if (pattern.size() > kLongest)
    throw std::invalid_argument("it has more than " + std::to_string(kLongest) + " characters");
  literal_ = literal_of(pattern);
  if (!pattern.empty() && literal_ == pattern) return;
  if (pattern.find('{') != pattern.npos) throw std::invalid_argument("it counts with {}: write the repeats out");
    // Matches breadth first: depth first needs stack for every character of a name, and names are long. Matches in one
    // pass: a search would start anew at each character. libc++ needs no stack, and gives up a match that takes too
    // long.
#ifdef __GLIBCXX__
  constexpr auto kHow = std::regex::ECMAScript | std::regex_constants::__polynomial;
#else
  constexpr auto kHow = std::regex::ECMAScript;
#endif
  try {
    const std::regex alone(pattern, kHow);  // or an extra parenthesis would close the added group
    automaton_ = std::make_shared<const Automaton>(std::regex(".*(?:" + pattern + ").*", kHow));
  } catch (const std::regex_error& e) {
    throw std::invalid_argument(e.what());
  }
}

bool NamePattern::is_found_in(std::string_view name) const {
  if (name.find(literal_) == name.npos) return false;
  if (automaton_ == nullptr) return !literal_.empty();
  try {
    return std::regex_match(name.begin(), name.end(), automaton_->regex);
  } catch (const std::regex_error& e) {
    throw std::invalid_argument(e.what());
  }
}

}  // namespace msda::adapters
