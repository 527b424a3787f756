#include "replay/base/same_file.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include "replay/base/errors.h"

namespace msda::replay {

void refuse_to_replace(const std::string& input, const std::string& output) {
  struct stat read {
  }, written{};
  const bool exist = stat(input.c_str(), &read) == 0 && stat(output.c_str(), &written) == 0;
  if (exist && read.st_dev == written.st_dev && read.st_ino == written.st_ino) {
    throw BadInput(fmt::format("-o {}: is {} itself; give another name", output, input));
  }
}

}  // namespace msda::replay
