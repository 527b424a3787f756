// The orders of one invocation, as the command order finds them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
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

// The atomic instructions of a capture's kernels. All of their code is read at once, the first time: calls of few
// kernels are many, and the code of PyTorch's is tens of megabytes.
class AtomicsOfKernels {
 public:
  explicit AtomicsOfKernels(const capture::IsolatedReader& reader) : reader_(reader) {}
  const std::vector<AtomicPlace>& of(const capture::Invocation& invocation);

 private:
  const capture::IsolatedReader& reader_;
  std::optional<std::vector<capture::KernelImage>> kernels_;
  std::map<std::pair<std::string, std::string>, std::vector<AtomicPlace>> found_;  // by digest and name
};

// Adds the orders of the invocation's scattered gradients, or why there are none.
void find_orders_in(const OrderOptions& options, const capture::IsolatedReader& reader, AtomicsOfKernels& atomics,
                    const capture::Invocation& invocation, const Progress& progress, std::vector<FoundOrders>& found,
                    std::vector<NoOrders>& none);

}  // namespace msda::replay
