#include "replay/report/page.h"

namespace msda::replay {
namespace {

constexpr size_t kLabelIndent = 2;

const char* sequence_of(Style style) {
  switch (style) {
    case Style::kBold:
      return "\x1b[1m";
    case Style::kWrong:
      return "\x1b[1;31m";
    case Style::kDoubtful:
      return "\x1b[1;33m";
    case Style::kGood:
      return "\x1b[1;32m";
    case Style::kLabel:
      return "\x1b[1;34m";
    case Style::kPlain:
      break;
  }
  return "";
}

constexpr std::string_view kReset = "\x1b[0m";

// Returns the text with no style that reaches over a line's end.
std::string with_styles_closed(std::string_view text) {
  std::string result, open;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text[at] == '\x1b' ? text.find('m', at) + 1 : at + 1;
    const std::string_view piece = text.substr(at, end - at);
    if (piece.starts_with('\x1b')) open = piece == kReset ? "" : piece;
    const bool divides = piece == "\n" && !open.empty();
    result += divides ? fmt::format("{}\n{}", kReset, open) : piece;
    at = end;
  }
  return result;
}

}  // namespace

std::string Page::styled(Style style, std::string_view text) const {
  if (!terminal_.colour || style == Style::kPlain) return std::string(text);
  return fmt::format("{}{}{}", sequence_of(style), text, kReset);
}

void Page::wrap(const std::vector<Span>& spans, size_t column, size_t hang) {
  std::string text;
  for (const Span& span : spans) text += styled(span.style, span.text);
  text_ += with_styles_closed(text::wrapped(text, terminal_.width, hang, column)) + '\n';
}

void Page::paragraph(const std::vector<Span>& spans, size_t indent, size_t hang) {
  text_.append(indent, ' ');
  wrap(spans, indent, hang);
}

void Page::labelled(std::string_view label, const std::vector<Span>& spans) {
  constexpr size_t kColumn = kLabelIndent + 7;  // the longest label is "where"
  text_ += fmt::format("{:{}}{}{:{}}", "", kLabelIndent, styled(Style::kLabel, fmt::format("{}:", label)), "",
                       kColumn - kLabelIndent - label.size() - 1);
  wrap(spans, kColumn, kColumn);
}

void Page::line(std::string_view text, size_t indent) {
  text_.append(indent, ' ');
  text_ += text::escaped(text) + "\n";
}

}  // namespace msda::replay
