#include "replay/export/part.h"

#include <algorithm>

#include "replay/export/parts.h"

namespace msda::replay {

std::string part(std::string_view path) {
  const auto* const found = std::ranges::find(kParts, path, &Part::path);
  return std::string(found == std::end(kParts) ? "" : found->text);
}

}  // namespace msda::replay
