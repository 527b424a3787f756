#include "recorder/writer/installation.h"

namespace msda::record {

namespace fs = std::filesystem;

fs::path this_program() { return fs::read_symlink("/proc/self/exe"); }

fs::path installed_library(const std::string& name) {
  const fs::path folder = this_program().parent_path();
  for (const fs::path& at : {folder.parent_path() / "lib", folder.parent_path() / MSDA_LIBDIR, folder}) {
    if (fs::exists(at / name)) return fs::canonical(at / name);
  }
  return {};
}

}  // namespace msda::record
