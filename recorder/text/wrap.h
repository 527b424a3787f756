// Running text in lines that fit a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace msda::text {

constexpr size_t kColumns = 80;  // of a terminal, where nothing says its width

// Returns the text with spaces at which wrapped() divides no line: paths, kernels' names and commands.
std::string unbroken(std::string_view text);

// Returns the text, which begins in `column`, divided at spaces into lines of at most so many columns. Further lines
// begin in column `hang`. A word that is too long stays whole, and so does a function's name with the arguments of its
// template. UTF-8 and escape sequences of colours are understood,
// wide and combining characters are not.
std::string wrapped(std::string_view text, size_t columns, size_t hang = 0, size_t column = 0);

// Returns CLI11's text of --help in lines that fit: descriptions of flags go on where they begin.
std::string wrapped_help(std::string_view help);

}  // namespace msda::text
