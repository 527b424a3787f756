// The adapters of this process: those of MSDA_RECORD_ADAPTERS, then the built-in ones.
#pragma once

#include <span>
#include <string_view>

#include "recorder/adapters/adapter.h"

namespace msda::record {

// Reads the files at its first call, and skips an invalid file, with a warning.
std::span<const adapters::Adapter* const> asked_adapters() noexcept;

// Returns whether the code of a function of this name is kept: one of them matches it, or every launch is surveyed.
bool keeps_code_of(std::string_view function) noexcept;

}  // namespace msda::record
