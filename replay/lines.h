// Text for a terminal, line by line.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "recorder/text/escape.h"

namespace msda::replay {

// The one way in which a command's text comes together: whatever a capture, a file's name or a flag brings into a line
// is shown, and never sent to the terminal as a control character or as further lines.
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
