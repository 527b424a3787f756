// How far `minimize` has come, in a file beside its output, with which a later run continues.
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>

#include "analysis/minimize.h"

namespace msda::replay {

class StateFile {
 public:
  // `subject`: what is minimized; a state of another subject is refused.
  StateFile(const std::string& output, nlohmann::ordered_json subject);

  const std::string& path() const { return path_; }
  // What an earlier run left; nothing if there is no file. Throws BadInput, naming the remedy, for a file that is
  // damaged or of another subject.
  std::optional<analysis::Reached> read(const analysis::Call& whole) const;
  // Replaces the file as a whole. Throws BadInput.
  void write(const analysis::Reached& reached) const;
  void remove() const;

 private:
  std::string path_;
  nlohmann::ordered_json subject_;
};

}  // namespace msda::replay
