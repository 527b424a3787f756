#include "kernels/guarded.h"

#include <fmt/format.h>

namespace msda::kernels {

std::string& last_error() {
  static thread_local std::string text;
  return text;
}

msda_options checked_options(const msda_options* options, int stages) {
  msda_options checked = options != nullptr ? *options : msda_options{};
  if (checked.mode < MSDA_MODE_DETERMINISTIC || checked.mode > MSDA_MODE_MIXED) {
    throw InvalidArgument(fmt::format("no such mode: {}", static_cast<int>(checked.mode)));
  }
  if (checked.threads < 0) throw InvalidArgument(fmt::format("threads is {}; 0 means one a core", checked.threads));
  if (checked.float64_stages >> stages != 0) {
    throw InvalidArgument(fmt::format("float64_stages is {:#x}; there are {} stages", checked.float64_stages, stages));
  }
  return checked;
}

}  // namespace msda::kernels

const char* msda_last_error(void) { return msda::kernels::last_error().c_str(); }
