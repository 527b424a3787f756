// Adapters that users write for kernels of their own, as JSON: docs/user-adapters.md is the format.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "recorder/adapters/adapter.h"

namespace msda::adapters {

// An invalid adapter file. The message names the file, the place in it by a JSON pointer, and the remedy.
struct BadAdapterFile : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Returns the adapters of a file, at least one, in its order. Throws BadAdapterFile.
std::vector<std::unique_ptr<const Adapter>> read_user_adapters(const std::string& path);
// As read_user_adapters(), for the file's text; `path` is for messages.
std::vector<std::unique_ptr<const Adapter>> parse_user_adapters(const std::string& path, const std::string& text);

}  // namespace msda::adapters
