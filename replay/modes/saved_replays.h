// The gradients of replays as a capture file of their own, for programs that compare or plot them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/model/side.h"
#include "recorder/capture/writer.h"
#include "replay/base/new_files.h"

namespace msda::replay {

class SavedReplays {
 public:
  // Throws BadInput if there is a file.
  SavedReplays(const std::string& path, const capture::Run& run);

  // Adds an invocation with the facts of the recorded one, and each side as a result of its name.
  void add(const capture::Invocation& invocation, const analysis::Call& call, const std::vector<analysis::Side>& sides);
  // Until then there is no file.
  void publish();

 private:
  NewFiles files_;
  std::string path_, temporary_;
  std::optional<capture::Writer> writer_;
};

}  // namespace msda::replay
