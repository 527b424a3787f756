// How far `minimize` has come, in a file beside its output, with which a later run continues.
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>

#include "analysis/shrink/minimize.h"

namespace msda::replay {

class StateFile {
 public:
  // `subject`: what is minimized; a state of another subject is refused.
  StateFile(const std::string& output, nlohmann::ordered_json subject);

  const std::string& path() const { return path_; }
  // Returns what an earlier run left; nothing if there is no file, or a state of anything is to be replaced
  // (`from_scratch`). Throws BadInput, naming the remedy, for a file that is damaged, of another subject, or no state.
  // The inputs that a search made of the recorded ones are not kept: nothing could show whether they make a call.
  std::optional<analysis::Reached> read(const analysis::Call& whole, bool from_scratch);
  // Returns whether the file is what the run that wrote the state left of its output.
  bool left(const std::string& output) const;
  // Before write(): what is left of the output.
  void note_output(const std::string& output);
  // Replaces the file as a whole. Throws BadInput.
  void write(const analysis::Reached& reached) const;
  void remove() const;

 private:
  std::string path_;
  nlohmann::ordered_json subject_;
  std::string output_digest_;
};

}  // namespace msda::replay
