// The capture that `minimize` writes.
#pragma once

#include <optional>
#include <string>

#include "analysis/shrink/minimize.h"
#include "recorder/capture/capture.h"

namespace msda::replay {

// `from`: the capture that the invocation is in; `run`: its. The conventions, label and tolerance of the invocation,
// the tensors of the small call, and in further attributes from what it was made, and what of it was computed again.
// The launch is left out: it is not that of this call. Throws capture::Error.
void write_small_capture(const std::string& path, bool replace, const std::string& from, const capture::Run& run,
                         const capture::Invocation& invocation, const std::optional<analysis::Tolerance>& tolerance,
                         const std::string& element, const analysis::Minimized& minimized);

// Returns how these elements were computed again: "mode mixed, pixel_coordinates in float64".
std::string arithmetic_of(const analysis::Minimized& minimized, const analysis::ReplayedElements& replayed);

// "outputs/grad_value" or "results/NAME/grad_value".
std::string path_in_capture(const analysis::ReplayedElements& replayed);

}  // namespace msda::replay
