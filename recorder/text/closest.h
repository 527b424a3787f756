// Finds the word that a mistyped one was probably meant to be.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace msda::text {

// Returns the candidate with the fewest mistakes: characters added, left out or replaced, and neighbours exchanged. The
// first of equal ones wins. Empty if each has more than one mistake in three characters. A candidate that begins with
// the word counts as one mistake.
std::string closest(std::string_view word, std::span<const std::string> candidates);

}  // namespace msda::text
