// What the reproducers say of an operator: its formulas in both languages, and the conventions that these read.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "replay/export/exported_call.h"
#include "replay/export/source_text.h"

namespace msda::replay {

struct OperatorSource {
  std::string python, cpp;
  std::vector<analysis::Convention> conventions;
};

// Returns nothing for an operator that no program computes alone; where one does for an operator of the user's own, it
// is in Python, and `cpp` is empty.
std::optional<OperatorSource> operator_source(const ExportedCall& call);

// Returns a line for each convention: padding_mode is PADDING_MODE in Python, and kPaddingMode in C++.
std::string definitions(const std::vector<analysis::Convention>& conventions, Language language);

}  // namespace msda::replay
