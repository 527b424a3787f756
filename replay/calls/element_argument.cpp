#include "replay/calls/element_argument.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <span>

#include "replay/base/errors.h"

namespace msda::replay {
namespace {

// "grad_value, grad_sampling_locations and grad_attention_weights"
std::string gradient_names(std::span<const analysis::Gradient> gradients) {
  std::string names;
  for (size_t i = 0; i < gradients.size(); ++i) {
    names += fmt::format("{}{}", i == 0 ? "" : i + 1 < gradients.size() ? ", " : " and ", gradients[i].name());
  }
  return names;
}

}  // namespace

analysis::ElementId parse_element(const std::string& text, const analysis::Call& call) {
  const size_t bracket = text.find('[');
  const std::string name = text.substr(0, bracket);
  for (const auto gradient : call.gradients()) {
    if (name != name_of(gradient)) continue;
    const auto shape = call.shape_of(gradient);
    int64_t flat = 0;
    size_t at = bracket;
    for (size_t i = 0; i < shape.size(); ++i) {
      int64_t index = -1;
      if (at == std::string::npos || at + 1 >= text.size()) break;
      const auto parsed = std::from_chars(text.data() + at + 1, text.data() + text.size(), index);
      at = static_cast<size_t>(parsed.ptr - text.data());
      const char closing = i + 1 < shape.size() ? ',' : ']';
      if (parsed.ec != std::errc() || index < 0 || index >= shape[i] || at >= text.size() || text[at] != closing) break;
      flat = flat * shape[i] + index;
      if (closing == ']' && at + 1 == text.size()) return call.element_id(gradient, flat);
    }
    throw BadInput(fmt::format("--element {}: give {} indices within [{}], as in {}[{}]", text, shape.size(),
                               fmt::join(shape, ","), name, fmt::join(analysis::Index(shape.size(), 0), ",")));
  }
  throw BadInput(fmt::format("--element {}: no such tensor; there are {}", text, gradient_names(call.gradients())));
}

}  // namespace msda::replay
