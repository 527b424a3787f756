// A user adapter as checked data: user_file.cpp makes it from JSON, user.cpp decodes launches by it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "recorder/adapters/adapter.h"
#include "recorder/adapters/expression.h"
#include "recorder/adapters/name_pattern.h"
#include "recorder/adapters/user_operator.h"

namespace msda::adapters {

enum class ScalarType { kInt32, kInt64, kUInt32, kUInt64, kFloat32, kFloat64, kBool, kPointer };

// A number or a pointer among the parameters: a parameter itself, or a field of a struct passed by value.
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
  msda_dtype type;
  std::vector<Expression> shape, strides;  // no strides: row-major
  std::optional<Condition> present_if;     // otherwise the launch has no such tensor
};

struct UserSpec {
  std::string name;
  bool has_kernel = true;  // otherwise it describes calls that were made by hand, and matches no launch
  NamePattern kernel;
  std::vector<uint64_t> sizes;      // of the parameters
  std::vector<bool> are_pointers;   // which of the parameters are
  std::vector<ScalarSpec> scalars;  // the first names of expressions; those of kExtents follow
  std::vector<Condition> conditions;
  std::vector<TensorSpec> tensors;
  std::vector<size_t> facts;                                // numbers that become attributes of the invocation
  std::vector<std::pair<std::string, std::string>> texts;   // further attributes: the same for all launches,
  std::vector<std::pair<std::string, Expression>> numbers;  // and computed
  std::optional<msda_dialect> dialect;
  std::optional<msda_padding> padding;
  std::optional<bool> align_corners;
  std::optional<OperatorSpec> op;  // of the user's own, or built in
  bool is_built_in = false;
  bool is_another_type = false;  // as the spec before it, but for the types of its "types"
  std::string text;              // of one that is built in, and is not another type: an adapter file with it alone
};

inline constexpr const char* kExtents[] = {"grid.x", "grid.y", "grid.z", "block.x", "block.y", "block.z"};

// Returns the specs of a file, as read_user_adapters() (user.h).
std::vector<UserSpec> read_user_specs(const std::string& path);
std::vector<UserSpec> parse_user_specs(const std::string& path, const std::string& text);
// Returns the specs of a definition that is built in (kernels/operator_rows.h). What reads launches needs of an
// operator its name alone; reading all of it takes most of the time.
std::vector<UserSpec> built_in_specs(std::string_view definition, bool with_operators);

// Returns the adapter that decodes launches by the spec.
std::unique_ptr<const Adapter> user_adapter(UserSpec spec);

}  // namespace msda::adapters
