// Text for a terminal, as lines.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "recorder/text/escape.h"

namespace msda::replay {

// All text of a command is built here: control characters and line ends from a capture, a file's name or a flag are
// shown as escapes, never sent to the terminal.
class Lines {
 public:
  template <class... Arguments>
  void add(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    text_ += text::escaped(fmt::format(format, std::forward<Arguments>(arguments)...)) + "\n";
  }
  void blank() { text_ += "\n"; }
  void append(const Lines& others) { text_ += others.text_; }

  bool empty() const { return text_.empty(); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace msda::replay
