// Calls whose recorded outputs several conventions explain: zeros and border padding give the same where no sample lies
// outside the image. The reference that a test compared with is of the same conventions, and may show which they are.
#pragma once

#include <string>

#include "recorder/capture/isolated_reader.h"
#include "replay/base/options.h"

namespace msda::replay {

struct Settled {
  std::string padding_mode;  // empty: as recorded
  bool align_corners = false;
  std::string note;  // a sentence; empty where only one fits
};

// Returns, among the conventions that fit, those that the reference's values miss least; the recorded ones if there is
// no reference, or if it does not distinguish them. Throws as LoadedCall does.
Settled settle(const Options& options, const capture::IsolatedReader& reader, const capture::Invocation& invocation);

void take(const Settled& settled, capture::CallFacts& facts);

}  // namespace msda::replay
