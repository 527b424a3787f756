#include "recorder/text/environment.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace msda::text {
namespace {

constexpr std::string_view kLibrary = "libmsda_record.so";

// Returns the list, split as the dynamic loader does, without the recorder's library.
std::string other_libraries(std::string_view list) {
  std::string others;
  while (!list.empty()) {
    const size_t end = std::min(list.find_first_of(": "), list.size());
    const std::string_view library = list.substr(0, end);
    if (!library.empty() && !library.ends_with(kLibrary)) others.append(others.empty() ? "" : ":").append(library);
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return others;
}

}  // namespace

std::optional<std::string> without_recorder(std::string_view name, std::string_view value) {
  if (name.starts_with("MSDA_RECORD_")) return std::nullopt;
  if (name == "CUDA_INJECTION64_PATH" && value.ends_with(kLibrary)) return std::nullopt;
  if (name != "LD_PRELOAD") return std::string(value);
  std::string others = other_libraries(value);
  return others.empty() ? std::nullopt : std::optional(std::move(others));
}

}  // namespace msda::text
