// What msda-replay doctor has found out about one thing.
#pragma once

#include <string>
#include <vector>

namespace msda::replay {

enum class Health {
  kOk,
  kWarning,  // something works less well, or is not here and not needed by everyone
  kError,    // recording or replaying fails
};

struct Check {
  std::string name{};
  Health health = Health::kOk;
  std::string summary{};
  std::vector<std::string> details{};  // more lines
  std::string remedy{};                // what to do; never empty if something is wrong
};

}  // namespace msda::replay
