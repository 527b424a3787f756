// What a user adapter says, after its JSON has been checked and before any launch: between the file's reader and the
// adapter.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "recorder/adapters/adapter.h"
#include "recorder/adapters/expression.h"
#include "recorder/adapters/regex.h"

namespace msda::adapters {

enum class ScalarType { kInt32, kInt64, kUInt32, kUInt64, kFloat32, kFloat64, kBool, kPointer };

// A number or a pointer in the parameters: a parameter, or a field of a struct passed by value.
struct ScalarSpec {
  std::string name;  // "n"; of a field "info.rows"
  size_t parameter;
  uint64_t offset;  // in the parameter
  ScalarType type;
  uint64_t size;
};

struct TensorSpec {
  std::string name;
  bool is_input, is_output;  // both: what the kernel reads and writes
  size_t pointer;            // index of a scalar
  ElementType type;
  std::vector<Expression> shape, strides;  // no strides: row-major
};

struct UserSpec {
  std::string name;
  std::regex kernel;                // of whole names
  std::vector<uint64_t> sizes;      // of the parameters
  std::vector<bool> are_pointers;   // which of the parameters are
  std::vector<ScalarSpec> scalars;  // in expressions the first names; then come those of kExtents
  std::vector<Condition> conditions;
  std::vector<TensorSpec> tensors;
  std::optional<msda_dialect> dialect;
  std::optional<msda_padding> padding;
  std::optional<bool> align_corners;
};

inline constexpr const char* kExtents[] = {"grid.x", "grid.y", "grid.z", "block.x", "block.y", "block.z"};

// The adapter that decodes by it.
std::unique_ptr<const Adapter> user_adapter(UserSpec spec);

}  // namespace msda::adapters
