#include "replay/base/same_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "replay/base/errors.h"

namespace msda::replay {

void refuse_to_replace(const std::string& input, const std::string& output) {
  std::error_code missing;
  if (std::filesystem::equivalent(input, output, missing)) {
    throw BadInput(fmt::format("-o {}: is {} itself; give another name", output, input));
  }
}

void refuse_same_outputs(const std::string& output, const std::string& json) {
  if (json.empty() || json == "-") return;
  namespace fs = std::filesystem;
  std::error_code first, second;  // of names that no file can have
  const bool same =
      fs::weakly_canonical(fs::absolute(output), first) == fs::weakly_canonical(fs::absolute(json), second);
  if (same && !first && !second) {
    throw BadInput(
        fmt::format("--json {}: would replace {}, which the command writes; give another name", json, output));
  }
}

}  // namespace msda::replay
