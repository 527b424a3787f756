// The orders of additions that `order` found, as text and as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "analysis/order/find_orders.h"
#include "recorder/capture/capture.h"
#include "replay/base/lines.h"
#include "replay/original/atomic_lines.h"

namespace msda::replay {

// The orders of one gradient of one invocation.
struct FoundOrders {
  int64_t invocation = 0;
  std::string operator_name, kernel;
  std::shared_ptr<const analysis::Call> call;
  analysis::Gradient gradient;
  analysis::OrderReport report;
  std::vector<AtomicPlace> atomics;  // of the kernel's code
  std::vector<std::string> altered;  // tensors whose digest is not the recorded one
};

// Where no orders were read.
struct NoOrders {
  int64_t id;
  std::string why;
};

// docs/order.schema.json. At most `most` pixels of an invocation are listed.
nlohmann::ordered_json to_json(const std::string& capture, const std::vector<FoundOrders>& found,
                               const std::vector<NoOrders>& none, size_t most);
// Adds up several captures, each without its invocations: docs/order-many.schema.json. And as text, a line each.
nlohmann::ordered_json add_up(const std::vector<nlohmann::ordered_json>& outcomes);
Lines to_text(const nlohmann::ordered_json& added_up, bool quiet);
Lines to_text(const FoundOrders& found, size_t most, bool quiet);

// Returns whether some pixel's bits are those of no order of its addends, nor of one order for each part of its
// channels, and accuse the kernel.
bool has_faults(const FoundOrders& found);

}  // namespace msda::replay
