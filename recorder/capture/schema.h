// The names, types and dimensions that make up a capture file; those of tensors are in the row of the operator that has
// dialects (analysis/operators/). Reader, writer and docs/capture-format.md follow this
// header; a change here is a change of the format (kFormatVersion).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace msda::capture {

inline constexpr std::string_view kFormat = "msda-capture";
// What a file says of itself to whoever finds it; the Python package has a copy.
inline constexpr std::string_view kAbout =
    "Calls of numerical kernels, with inputs and outputs, recorded by msda-replay. "
    "'msda-replay run FILE' replays and explains them; any HDF5 reader opens the file.";
inline constexpr std::string_view kFormatPage = "docs/capture-format.md in msda-replay's sources and packages";
// In place of a kernel's name: the invocation is a value that the program kept for comparisons; from Python only.
inline constexpr std::string_view kProbe = "msda_replay.probe";
// Readers refuse any other version. Raise it when a reader of the old one would misread a new file.
inline constexpr int64_t kFormatVersion = 1;

// /kernels has a group for each image, named by its digest, with the facts of one recorded function. The facts of
// another function of that image are in a group named by digest, this separator, and the function.
inline constexpr char kFunctionSeparator = ' ';

// A tensor that the format knows by name, in inputs/, outputs_before/, outputs/ and results/<name>/ of an invocation
// with a dialect. Other datasets are read as they are, with no names for their dimensions.
struct TensorSchema {
  std::string_view name;
  std::vector<std::string_view> dimensions;  // their number is the rank
  bool is_integer;                           // int32 or int64; otherwise one of the floating-point types
};

// Returns null for a name that the format does not know.
const TensorSchema* find_tensor(std::string_view name);
// Returns the stages' intermediate tensors, in stages/<stage>/full.
const TensorSchema* find_stage(std::string_view name);
// Returns all of them, in the order of their computation.
std::span<const TensorSchema> all_stages();

}  // namespace msda::capture
