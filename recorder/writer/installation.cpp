#include "recorder/writer/installation.h"

#include <sys/auxv.h>

#include <stdexcept>
#include <system_error>

namespace msda::record {

namespace fs = std::filesystem;

fs::path this_program() {
  std::error_code error;
  fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) return program;
  // In some containers /proc is not mounted. Then the name that the kernel was given serves, relative to the folder of
  // that time.
  program = fs::canonical(reinterpret_cast<const char*>(getauxval(AT_EXECFN)), error);
  if (error) throw std::runtime_error("/proc is not mounted, so that this program cannot find where it is installed");
  return program;
}

fs::path installed_library(const std::string& name) {
  const fs::path folder = this_program().parent_path();
  for (const fs::path& at : {folder.parent_path() / "lib", folder.parent_path() / MSDA_LIBDIR, folder}) {
    if (fs::exists(at / name)) return fs::canonical(at / name);
  }
  return {};
}

}  // namespace msda::record
