// Text for a terminal, as lines.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "recorder/text/escape.h"
#include "recorder/text/wrap.h"

namespace msda::replay {

// All text of a command is built here: control characters and line ends from a capture, a file's name or a flag are
// shown as escapes, never sent to the terminal. Lines that are too long go on below.
class Lines {
 public:
  // Further lines are indented by two columns more than the first.
  template <class... Arguments>
  void add(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    const std::string line = text::escaped(fmt::format(format, std::forward<Arguments>(arguments)...));
    add_wrapped(line, std::min(line.find_first_not_of(' '), line.size()) + 2);
  }
  // Further lines begin in column `hang`.
  template <class... Arguments>
  void add_hanging(size_t hang, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    add_wrapped(text::escaped(fmt::format(format, std::forward<Arguments>(arguments)...)), hang);
  }
  // A line that stays whole, however long: a command to be copied.
  void add_whole(std::string_view line) { text_ += text::escaped(line) + "\n"; }
  void blank() { text_ += "\n"; }
  void append(const Lines& others) { text_ += others.text_; }

  bool empty() const { return text_.empty(); }
  const std::string& text() const { return text_; }

 private:
  void add_wrapped(const std::string& line, size_t hang) { text_ += text::wrapped(line, text::kColumns, hang) + "\n"; }

  std::string text_;
};

}  // namespace msda::replay
