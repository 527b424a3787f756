#include "recorder/text/wrap.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace msda::text {
namespace {

constexpr std::string_view kNoBreakSpace = "\u00a0";

size_t width_of(std::string_view word) {
  size_t columns = 0;
  bool is_sequence = false;
  for (const char c : word) {
    is_sequence = is_sequence || c == '\x1b';
    columns += !is_sequence && (static_cast<unsigned char>(c) & 0xc0) != 0x80;
    is_sequence = is_sequence && c != 'm';
  }
  return columns;
}

// Returns the end of the word that begins at `begin`: the next space but those among a template's arguments.
size_t end_of_word(std::string_view text, size_t begin) {
  int depth = 0;  // of templates
  for (size_t at = begin; at < text.size(); ++at) {
    const bool is_after_name =
        at > begin && (std::isalnum(static_cast<unsigned char>(text[at - 1])) || text[at - 1] == '_');
    depth += text[at] == '<' && is_after_name ? 1 : text[at] == '>' && depth > 0 ? -1 : 0;
    if (text[at] == ' ' && depth == 0) return at;
  }
  return depth == 0 ? text.size() : std::min(text.find(' ', begin), text.size());
}

// Returns the text as it is printed: a space that divides no line is an ordinary one, to be searched for and copied.
std::string printed(std::string text) {
  for (size_t at = 0; (at = text.find(kNoBreakSpace, at)) != std::string::npos; ++at) {
    text.replace(at, kNoBreakSpace.size(), " ");
  }
  return text;
}

}  // namespace

std::string unbroken(std::string_view text) {
  std::string result;
  for (const char c : text) result += c == ' ' ? kNoBreakSpace : std::string_view(&c, 1);
  return result;
}

std::string wrapped(std::string_view text, size_t columns, size_t hang, size_t column) {
  std::string result;
  size_t at = 0;
  for (bool is_first = true;; is_first = false) {
    const size_t word = text.find_first_not_of(' ', at);
    if (word == text.npos) return printed(std::move(result));
    const size_t end = end_of_word(text, word);
    const size_t width = width_of(text.substr(word, end - word));
    if (!is_first && column + (word - at) + width > columns) {
      result += '\n' + std::string(hang, ' ');
      column = hang;
    } else {
      result.append(word - at, ' ');
      column += word - at;
    }
    result += text.substr(word, end - word);
    column += width;
    at = end;
  }
}

std::string wrapped_help(std::string_view help) {
  constexpr size_t kDescription = 30;  // the column of CLI::FormatterBase
  std::string result;
  for (size_t at = 0; at < help.size();) {
    const size_t end = std::min(help.find('\n', at), help.size());
    const std::string_view line = help.substr(at, end - at);
    result += wrapped(line, kColumns, line.starts_with(' ') ? kDescription : 0) + '\n';
    at = end + 1;
  }
  return result;
}

}  // namespace msda::text
