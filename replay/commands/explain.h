// The whole way of one invocation: read, replay, compare, explain.
#pragma once

#include <functional>
#include <string>

#include "recorder/capture/isolated_reader.h"
#include "replay/base/options.h"
#include "replay/base/progress.h"
#include "replay/calls/loaded_call.h"
#include "replay/calls/pairing.h"
#include "replay/modes/devices.h"
#include "replay/modes/replays.h"
#include "replay/original/original.h"
#include "replay/report/result.h"

namespace msda::replay {

// Returns the sides of an invocation, as the analysis takes them; they refer to the other arguments. Without earlier
// calls.
analysis::Material material_of(const capture::Invocation& invocation, const LoadedCall& loaded, const Replays& replays);

// Sees an invocation explained, while its tensors are in memory, and may drop what it does not need of the result.
using Look = std::function<void(const LoadedCall&, const analysis::Material&, InvocationResult&)>;

// Progress shows `count` after its text: " (2 of 7)".
InvocationResult explain_invocation(const Options& options, const capture::IsolatedReader& reader,
                                    const Pairing& pairing, Original& original, Devices& devices, int64_t id,
                                    const std::string& count, const Progress& progress, const Look& look = {});

}  // namespace msda::replay
