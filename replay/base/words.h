// Large counts and their nouns, as a sentence has them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "analysis/causes/finding.h"
#include "recorder/text/words.h"

namespace msda::replay {

// Returns "1 element", "12,345 elements".
inline std::string count_text(int64_t count, std::string_view noun) {
  return analysis::thousands(count) + " " + text::plural(count, noun);
}

}  // namespace msda::replay
