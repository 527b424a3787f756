#include "recorder/writer/sanitizers.h"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "recorder/writer/program_file.h"

namespace msda::record {

std::string why_not_recordable(const std::string& program) {
  if (!read_program(find_program(program)).imports("__msan_init")) return {};
  return program +
         " is built with the memory sanitizer, which would report everything that the recorder writes as "
         "uninitialized; "
         "record a build without -fsanitize=memory";
}

void set_sanitizer_options() {
  for (const auto& [name, option] : {std::pair{"ASAN_OPTIONS", "verify_asan_link_order=0"},
                                     std::pair{"TSAN_OPTIONS", "ignore_noninstrumented_modules=1"}}) {
    const char* asked = getenv(name);
    setenv(name, (asked != nullptr && *asked != 0 ? fmt::format("{}:{}", option, asked) : option).c_str(), 1);
  }
}

}  // namespace msda::record
