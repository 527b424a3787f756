#include "replay/report/page.h"

namespace msda::replay {
namespace {

constexpr size_t kLabelIndent = 2;

// Returns the width of UTF-8 text, without regard to wide or combining characters.
size_t width_of(std::string_view text) {
  size_t columns = 0;
  for (const char c : text) columns += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  return columns;
}

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

constexpr std::string_view kNoBreakSpace = "\u00a0";

// Returns the text as printed: a space that breaks no line is an ordinary one, to be searched for and copied.
std::string printed(std::string_view text) {
  std::string result(text);
  for (size_t at = 0; (at = result.find(kNoBreakSpace, at)) != std::string::npos; ++at) {
    result.replace(at, kNoBreakSpace.size(), " ");
  }
  return result;
}

struct Piece {
  Style style;
  std::string_view text;
};
// What stands between two spaces; its pieces may differ in style.
using Word = std::vector<Piece>;

std::vector<Word> split_words(const std::vector<Span>& spans) {
  std::vector<Word> words(1);
  for (const Span& span : spans) {
    std::string_view rest = span.text;
    while (!rest.empty()) {
      const size_t space = rest.find(' ');
      if (space != 0) words.back().push_back({span.style, rest.substr(0, space)});
      if (space == std::string_view::npos) break;
      if (!words.back().empty()) words.emplace_back();
      rest.remove_prefix(space + 1);
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

}  // namespace

std::string unbroken(std::string_view text) {
  std::string result;
  for (const char c : text) result += c == ' ' ? kNoBreakSpace : std::string_view(&c, 1);
  return result;
}

void Page::put(Style style, std::string_view text) {
  if (terminal_.colour && style != style_) {
    if (style_ != Style::kPlain) text_ += "\x1b[0m";
    text_ += sequence_of(style);
    style_ = style;
  }
  text_ += printed(text);
}

void Page::end_line() {
  put(Style::kPlain, "");
  text_ += '\n';
}

void Page::wrap(const std::vector<Span>& spans, size_t column, size_t hang) {
  bool first = true;
  for (const Word& word : split_words(spans)) {
    size_t width = 0;
    for (const Piece& piece : word) width += width_of(piece.text);
    if (!first && column + 1 + width > terminal_.width) {
      end_line();
      text_.append(hang, ' ');
      column = hang;
    } else if (!first) {
      put(word.front().style == style_ ? style_ : Style::kPlain, " ");
      ++column;
    }
    for (const Piece& piece : word) put(piece.style, piece.text);
    column += width;
    first = false;
  }
  end_line();
}

void Page::paragraph(const std::vector<Span>& spans, size_t indent, size_t hang) {
  text_.append(indent, ' ');
  wrap(spans, indent, hang);
}

void Page::labelled(std::string_view label, const std::vector<Span>& spans) {
  constexpr size_t kColumn = kLabelIndent + 7;  // the longest label is "where"
  text_.append(kLabelIndent, ' ');
  put(Style::kLabel, std::string(label) + ":");
  put(Style::kPlain, "");
  text_.append(kColumn - kLabelIndent - label.size() - 1, ' ');
  wrap(spans, kColumn, kColumn);
}

void Page::line(std::string_view text, size_t indent) {
  text_.append(indent, ' ');
  text_ += text::escaped(text) + "\n";
}

}  // namespace msda::replay
