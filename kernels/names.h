// The names and sizes of msda.h's enumerations, inline: for libmsda, whose C ABI returns them, and for the recorder,
// which must not link libmsda into the recorded program.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "kernels/grid_sample.h"
#include "kernels/msda.h"

namespace msda::kernels {

inline constexpr const char* kDialectNames[] = {"deformable_detr", "msda_triton", "grid_sample"};
inline constexpr const char* kPaddingNames[] = {"zeros", "border"};
inline constexpr const char* kInterpolationNames[] = {"bilinear", "nearest", "bicubic"};
inline constexpr const char* kGridPaddingNames[] = {"zeros", "border", "reflection"};
inline constexpr const char* kGridStageNames[] = {"pixel_coordinates", "interpolation_weights", "grad_grid",
                                                  "input_contributions", "grad_input"};
inline constexpr const char* kStageNames[] = {"pixel_coordinates",
                                              "cell",
                                              "interpolation_weights",
                                              "corner_values",
                                              "sampled_value",
                                              "grad_attention_weights",
                                              "grad_sampling_locations",
                                              "value_contributions",
                                              "grad_value"};
inline constexpr const char* kModeNames[] = {"deterministic", "atomic", "float64", "mixed"};
inline constexpr const char* kDtypeNames[] = {"float16", "bfloat16", "float32", "float64", "int32", "int64", "uint8"};
inline constexpr int64_t kDtypeBytes[] = {2, 2, 4, 8, 4, 8, 1};
inline constexpr msda_dtype kUInt8{6};  // captures may hold it; no operator takes it

// Returns the table's entry for an enumerator, or `otherwise` for a number that is none.
template <class T, int kCount, class Enum>
constexpr T look_up(const T (&table)[kCount], Enum value, T otherwise) {
  const auto i = static_cast<int64_t>(value);
  return i >= 0 && i < kCount ? table[i] : otherwise;
}

constexpr const char* name_of(msda_dialect dialect) { return look_up(kDialectNames, dialect, "?"); }
constexpr const char* name_of(msda_padding padding) { return look_up(kPaddingNames, padding, "?"); }
constexpr const char* name_of(msda_interpolation interpolation) {
  return look_up(kInterpolationNames, interpolation, "?");
}
constexpr const char* name_of(msda_grid_padding padding) { return look_up(kGridPaddingNames, padding, "?"); }
constexpr const char* name_of(msda_grid_stage_id stage) { return look_up(kGridStageNames, stage, "?"); }
constexpr const char* name_of(msda_stage_id stage) { return look_up(kStageNames, stage, "?"); }
constexpr const char* name_of(msda_mode mode) { return look_up(kModeNames, mode, "?"); }
constexpr const char* name_of(msda_dtype dtype) { return look_up(kDtypeNames, dtype, "?"); }
// Returns the bytes of one element; 0 for a number that is no type.
constexpr int64_t bytes_of(msda_dtype dtype) { return look_up(kDtypeBytes, dtype, int64_t{0}); }
constexpr bool is_float(msda_dtype dtype) { return dtype >= MSDA_FLOAT16 && dtype <= MSDA_FLOAT64; }
constexpr bool is_index(msda_dtype dtype) { return dtype == MSDA_INT32 || dtype == MSDA_INT64; }

// Returns the enumerator with that name, or nothing.
template <class Enum, int kCount>
constexpr std::optional<Enum> find_name(const char* const (&table)[kCount], std::string_view name) {
  for (int i = 0; i < kCount; ++i) {
    if (name == table[i]) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

constexpr std::optional<msda_dialect> dialect_named(std::string_view name) {
  return find_name<msda_dialect>(kDialectNames, name);
}
constexpr std::optional<msda_padding> padding_named(std::string_view name) {
  return find_name<msda_padding>(kPaddingNames, name);
}
constexpr std::optional<msda_interpolation> interpolation_named(std::string_view name) {
  return find_name<msda_interpolation>(kInterpolationNames, name);
}
constexpr std::optional<msda_grid_padding> grid_padding_named(std::string_view name) {
  return find_name<msda_grid_padding>(kGridPaddingNames, name);
}
constexpr std::optional<msda_dtype> dtype_named(std::string_view name) {
  return find_name<msda_dtype>(kDtypeNames, name);
}

}  // namespace msda::kernels
