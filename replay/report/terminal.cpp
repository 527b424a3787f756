#include "replay/report/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

namespace msda::replay {
namespace {

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// 0 if nothing says it.
size_t columns() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const std::string_view text = variable("COLUMNS");
  size_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() ? number : 0;
}

}  // namespace

Terminal terminal_of_stdout(const std::string& colour) {
  constexpr size_t kNarrowest = 60, kWidest = 120;
  Terminal terminal;
  if (const size_t width = columns(); width > 0) terminal.width = std::clamp(width, kNarrowest, kWidest);
  const bool understood = isatty(STDOUT_FILENO) != 0 && variable("TERM") != "dumb";
  terminal.colour = colour == "always" || (colour == "auto" && understood && variable("NO_COLOR").empty());
  return terminal;
}

}  // namespace msda::replay
