// The orders of one invocation, as the command order finds them.
#pragma once

#include <vector>

#include "analysis/order/find_orders.h"
#include "recorder/capture/isolated_reader.h"
#include "replay/base/options.h"
#include "replay/base/progress.h"
#include "replay/report/orders.h"

namespace msda::replay {

struct OrderOptions : Options {
  analysis::OrderSettings search;
  int64_t list = 10;
};

// Adds the orders of the invocation's scattered gradients, or why there are none.
void find_orders_in(const OrderOptions& options, const capture::IsolatedReader& reader,
                    const capture::Invocation& invocation, const Progress& progress, std::vector<FoundOrders>& found,
                    std::vector<NoOrders>& none);

}  // namespace msda::replay
