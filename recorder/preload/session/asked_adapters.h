// The adapters that this process asks about a kernel: those of MSDA_RECORD_ADAPTERS, then the built-in ones.
#pragma once

#include <span>
#include <string_view>

#include "recorder/adapters/adapter.h"

namespace msda::record {

// Reads the files when it is first called. One that is no adapter file is passed over, with a line.
std::span<const adapters::Adapter* const> asked_adapters() noexcept;

// Whether one of them knows a function of this name.
bool is_known_to_adapters(std::string_view function) noexcept;

}  // namespace msda::record
