// The order of additions, read from the outputs of a launch of --poison.
#pragma once

#include "recorder/capture/isolated_reader.h"
#include "replay/base/options.h"
#include "replay/original/poison_judge.h"

namespace msda::replay {

// Keeps references to all arguments. Finds nothing for kernels of no operator that is known, for gradients that are no
// sums of samples, and where the kernel's arithmetic is not recognized.
FindOrders find_orders_of(const Options& options, const capture::IsolatedReader& reader,
                          const capture::Invocation& invocation);

}  // namespace msda::replay
