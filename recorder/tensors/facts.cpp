#include "recorder/tensors/facts.h"

#include <array>
#include <charconv>

namespace msda::tensors {

std::string fact_text(int64_t value) { return std::to_string(value); }

std::string fact_text(double value) {
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

}  // namespace msda::tensors
