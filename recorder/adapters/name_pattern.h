// A regular expression that is searched for in kernels' names. <regex> is included in the source alone: it takes long
// to compile.
#pragma once

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

namespace msda::adapters {

// Not a regular expression (ECMAScript), or one that takes too long or too much memory. what() is the library's text.
struct BadPattern : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class NamePattern {
 public:
  static constexpr size_t kLongest = 500;  // characters: compiling and matching take stack for each

  NamePattern() = default;                           // found in no name
  explicit NamePattern(const std::string& pattern);  // throws BadPattern

  // Returns whether it is found anywhere in the name. Throws BadPattern.
  bool is_found_in(std::string_view name) const;

 private:
  struct Automaton;
  std::shared_ptr<const Automaton> automaton_;
};

}  // namespace msda::adapters
