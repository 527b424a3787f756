// Running text for a terminal: paragraphs that fit its width, in colours where it has them.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "recorder/text/escape.h"
#include "replay/base/lines.h"
#include "replay/report/terminal.h"

namespace msda::replay {

enum class Style { kPlain, kBold, kWrong, kDoubtful, kGood, kLabel };

// A piece of a paragraph. Control characters that a capture brings into it are shown as escapes.
struct Span {
  Style style = Style::kPlain;
  std::string text;

  Span(Style a_style, std::string_view a_text) : style(a_style), text(text::escaped(a_text)) {}
  Span(std::string_view a_text) : Span(Style::kPlain, a_text) {}
};

class Page {
 public:
  explicit Page(const Terminal& terminal) : terminal_(terminal) {}

  // Words that do not fit go on further lines, `hang` columns in; the first begins `indent` columns in.
  void paragraph(const std::vector<Span>& spans, size_t indent = 0, size_t hang = 0);
  // "  label: text", where all labels' texts begin in one column.
  void labelled(std::string_view label, const std::vector<Span>& spans);
  // One line, however long: tables, and commands to be copied.
  void line(std::string_view text, size_t indent = 0);
  void append(const Lines& lines) { text_ += lines.text(); }
  void blank() { text_ += '\n'; }

  const std::string& text() const { return text_; }

 private:
  std::string styled(Style style, std::string_view text) const;
  // Adds words from this column on.
  void wrap(const std::vector<Span>& spans, size_t column, size_t hang);

  Terminal terminal_;
  std::string text_;
};

}  // namespace msda::replay
