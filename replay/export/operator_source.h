// What the reproducers say of an operator: its formulas in both languages, and the conventions that these read.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "replay/export/exported_call.h"
#include "replay/export/source_text.h"

namespace msda::replay {

// A convention by its name in captures: PADDING_MODE in Python, kPaddingMode in C++. Numbers may be of each axis.
struct Convention {
  std::string name;
  std::variant<std::string, bool, int64_t, std::vector<double>> value;
};

struct OperatorSource {
  std::string python, cpp;
  bool with_torch;  // there is grad_by_torch() in Python
  std::vector<Convention> conventions;
};

// Returns nothing for an operator of the user's own that no program computes alone; where one does, it is in Python,
// and `cpp` is empty.
std::optional<OperatorSource> operator_source(const ExportedCall& call);

// Returns a line for each convention.
std::string definitions(const std::vector<Convention>& conventions, Language language);

}  // namespace msda::replay
