#include "replay/survey/kernel_name.h"

#include <string_view>

namespace msda::replay {
namespace {

// Returns a function's name with its template's arguments, without its result and parameters:
// "at::native::copy<float>".
std::string without_parameters(std::string name) {
  constexpr std::string_view kUnnamed = "(anonymous namespace)::", kVoid = "void ";
  for (size_t at = 0; (at = name.find(kUnnamed, at)) != name.npos;) name.erase(at, kUnnamed.size());
  if (name.starts_with(kVoid)) name.erase(0, kVoid.size());
  int depth = 0;  // of templates
  for (size_t at = 0; at < name.size(); ++at) {
    depth += name[at] == '<' ? 1 : name[at] == '>' ? -1 : 0;
    if (name[at] == '(' && depth == 0) return name.substr(0, at);
  }
  return name;
}

}  // namespace

// Cuts a long name in its middle, because its end shows the template's arguments.
std::string short_name(const std::string& full, size_t columns) {
  constexpr std::string_view kCut = "...";
  const std::string name = without_parameters(full);
  if (name.size() <= columns) return name;
  const size_t head = (columns - kCut.size()) * 2 / 3, tail = columns - kCut.size() - head;
  return name.substr(0, head) + std::string(kCut) + name.substr(name.size() - tail);
}

}  // namespace msda::replay
