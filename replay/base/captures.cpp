#include "replay/base/captures.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "replay/base/errors.h"

namespace msda::replay {

namespace fs = std::filesystem;

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

std::vector<std::string> captures_in(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const fs::path& path = entry->path();
    if (path.filename().native().starts_with('.')) {
      entry.disable_recursion_pending();
    } else if (std::error_code ignored; path.extension() == ".h5" && entry->is_regular_file(ignored)) {
      files.push_back(path.string());
    }
  }
  if (error) throw BadInput(fmt::format("{}: cannot be searched for captures: {}", folder, error.message()));
  if (files.empty()) throw BadInput(fmt::format("{}: there is no capture (*.h5) in this folder", folder));
  std::ranges::sort(files);
  return files;
}

bool names_several(const std::vector<std::string>& names) { return names.size() > 1 || is_folder(names.front()); }

std::vector<std::string> named_captures(const std::vector<std::string>& names) {
  std::vector<std::string> captures;
  std::set<fs::path> known;
  const auto add = [&](const std::string& capture) {
    std::error_code failed;
    const fs::path file = fs::weakly_canonical(capture, failed);
    if (failed || known.insert(file).second) captures.push_back(capture);
  };
  for (const std::string& name : names) {
    if (is_folder(name)) {
      std::ranges::for_each(captures_in(name), add);
    } else {
      add(name);
    }
  }
  return captures;
}

}  // namespace msda::replay
