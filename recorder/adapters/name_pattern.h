// A regular expression that is searched for in kernels' names. <regex> is included in the source alone: it takes long
// to compile.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace msda::adapters {

// Functions throw std::invalid_argument for what is not a regular expression (ECMAScript), or takes too long or too
// much memory. what() is the library's text.
class NamePattern {
 public:
  static constexpr size_t kLongest = 500;  // characters: compiling and matching take stack for each

  NamePattern() = default;  // found in no name
  explicit NamePattern(const std::string& pattern);

  // Returns whether it is found anywhere in the name.
  bool is_found_in(std::string_view name) const;

 private:
  struct Automaton;
  std::string literal_;                         // what the pattern begins with: names without it are not searched
  std::shared_ptr<const Automaton> automaton_;  // null: the pattern is nothing but that
};

}  // namespace msda::adapters
