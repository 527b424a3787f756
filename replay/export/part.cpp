#include "replay/export/part.h"

#include <algorithm>
#include <stdexcept>

#include "replay/export/parts.h"

namespace msda::replay {

std::string part(std::string_view path) {
  const auto* const found = std::ranges::find(kParts, path, &Part::path);
  if (found == std::end(kParts)) throw std::logic_error("no part " + std::string(path));
  return std::string(found->text);
}

}  // namespace msda::replay
