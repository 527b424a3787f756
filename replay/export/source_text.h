// What the reproducers in Python and in C++ have in common: a head of comments, and tensors as literals.
#pragma once

#include <string>
#include <string_view>

#include "replay/export/exported_call.h"

namespace msda::replay {

// Returns what `run` says of the finding, each line behind `prefix` ("# ", "// ").
std::string diagnosis_comment(const ExportedCall& call, std::string_view prefix);

// Returns whether the tensors of the finding stand in the source: not many numbers, and no NaN, which literals have
// only one of.
bool fits_inline(const ExportedCall& call);

enum class Language { kPython, kCpp };
// Returns the numbers of a tensor, separated by commas, in lines behind `indent` columns. Each gives the stored value
// exactly.
std::string literals(const analysis::Tensor& tensor, Language language, size_t indent);

// Returns a text in double quotes, as both languages read it.
std::string string_literal(std::string_view text);

}  // namespace msda::replay
