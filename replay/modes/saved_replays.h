// The gradients of replays as a capture file of their own, for programs that compare or plot them.
#pragma once

#include <string>
#include <vector>

#include "analysis/side.h"
#include "recorder/capture/writer.h"

namespace msda::replay {

class SavedReplays {
 public:
  // Creates the file. Throws capture::Error if it exists.
  SavedReplays(const std::string& path, const capture::Run& run);

  // Adds an invocation with the facts of the recorded one, and each side as a result of its name.
  void add(const capture::Invocation& invocation, const analysis::Call& call, const std::vector<analysis::Side>& sides);
  void close() { writer_.close(); }

 private:
  capture::Writer writer_;
};

}  // namespace msda::replay
