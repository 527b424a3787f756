// What standard output can show.
#pragma once

#include <cstddef>
#include <string>

#include "recorder/text/wrap.h"

namespace msda::replay {

struct Terminal {
  size_t width = text::kColumns;  // of running text
  bool colour = false;            // whether escape sequences for colours are understood and wanted
};

// `colour` is what --color says: "auto", "always" or "never". "auto" is colour on a terminal, unless NO_COLOR is set to
// anything but "" (https://no-color.org) or TERM is "dumb". The width is the terminal's, elsewhere that of COLUMNS,
// else 80; never below 60 or above 120.
Terminal terminal_of_stdout(const std::string& colour);

}  // namespace msda::replay
