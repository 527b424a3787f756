// Attributes and tensors of an invocation, checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "analysis/numbers/tensor.h"
#include "recorder/capture/capture.h"

namespace msda::replay {

// Returns the value of an attribute that is a text, or a real number as text; empty if there is none.
std::string text_of(const capture::Invocation& invocation, const char* name);
std::optional<int64_t> integer_of(const capture::Invocation& invocation, const char* name);
// Throw BadInput, whose message begins with `where`, for an attribute that is missing or out of its range.
int64_t integer_in(const capture::Invocation& invocation, const char* name, int64_t low, int64_t high,
                   const std::string& where);
bool flag_of(const capture::Invocation& invocation, const char* name, const std::string& where);
// Without the attribute: `otherwise`.
bool flag_of(const capture::Invocation& invocation, const char* name, bool otherwise, const std::string& where);

// Throws unless the tensor has this shape and a floating-point type.
void check_tensor(const analysis::Tensor& tensor, const analysis::Index& shape, const char* name,
                  const std::string& where);

// Throws unless a result of this shape, of which nothing need have been recorded, fits in this machine's memory.
void check_result(const analysis::Index& shape, const char* name, const std::string& where);

}  // namespace msda::replay
