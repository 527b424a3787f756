// Parses the mangled names of C++ kernels (Itanium C++ ABI) from left to right.
#pragma once

#include <optional>
#include <string_view>

#include "kernels/msda.h"

namespace msda::adapters {

class Mangled {
 public:
  explicit Mangled(std::string_view rest) : rest_(rest) {}

  bool take(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }

  // Skips up to the end of the first occurrence of `text`.
  bool take_past(std::string_view text) {
    const size_t at = rest_.find(text);
    if (at == rest_.npos) return false;
    rest_.remove_prefix(at + text.size());
    return true;
  }

  std::string_view take_all_of(std::string_view characters) {
    const std::string_view taken = rest_.substr(0, rest_.find_first_not_of(characters));
    rest_.remove_prefix(taken.size());
    return taken;
  }

  // Returns a type that occurred before: "S_", "S0_", ... Empty if there is none here.
  std::string_view take_seen() {
    if (!take("S")) return {};
    const char* start = rest_.data() - 1;
    take_all_of("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    return take("_") ? std::string_view(start, rest_.data() - start) : std::string_view();
  }

  // Returns the element types that PyTorch's kernels are compiled for.
  std::optional<msda_dtype> take_element_type() {
    if (take("f")) return MSDA_FLOAT32;
    if (take("d")) return MSDA_FLOAT64;
    if (take("N3c104HalfE")) return MSDA_FLOAT16;
    if (take("N3c108BFloat16E")) return MSDA_BFLOAT16;
    return std::nullopt;
  }

  bool empty() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

}  // namespace msda::adapters
