// Runs another program and waits for it.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace msda::replay {

struct Spawn {
  std::vector<std::string> command{};
  std::map<std::string, std::string> variables{};    // set beside this process' environment
  std::string without{};                             // of that, variables whose names begin so are left out
  std::string output{};                              // a file for its standard output and standard error; else both go
                                                     // to this process' standard error
  std::optional<std::chrono::milliseconds> limit{};  // then it is killed
};

// Returns the exit status, 128 + N if signal N ended it. Ctrl-C reaches the program and not this process. Throws
// BadInput if it cannot be started.
int spawn_and_wait(const Spawn& spawn);

}  // namespace msda::replay
