#include "recorder/text/shell.h"

namespace msda::text {

std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  const bool is_plain = !text.empty() && text.find_first_not_of(kPlain) == text.npos && !text.starts_with('-');
  if (is_plain) return std::string(text);
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? "'\\''" : std::string(1, c);
  return result + "'";
}

}  // namespace msda::text
