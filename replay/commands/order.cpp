// msda-replay order: in which order the atomic additions arrived, read from the recorded bits.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "replay/base/errors.h"
#include "replay/base/output.h"
#include "replay/commands/commands.h"
#include "replay/commands/flags.h"
#include "replay/commands/found_orders.h"
#include "replay/commands/new_command.h"
#include "replay/many/many.h"

namespace msda::replay {
namespace {

void check_order_flags(const OrderOptions& options) {
  check_numbers(options);
  if (options.list < 0) throw BadInput(fmt::format("--list {}: give a number of pixels, from 0 on", options.list));
  for (const auto& [flag, seconds] :
       {std::pair{"--limit", options.search.seconds}, {"--seconds-each", options.search.seconds_each}}) {
    if (!(seconds > 0 && std::isfinite(seconds))) {
      throw BadInput(fmt::format("{} {}: give seconds, more than 0", flag, seconds));
    }
  }
}

// What was found in one capture.
struct FoundInCapture {
  std::vector<FoundOrders> found;
  std::vector<NoOrders> none;

  explicit FoundInCapture(OrderOptions options) {
    const capture::IsolatedReader reader(options.capture);
    const Progress progress(!options.quiet);
    AtomicsOfKernels atomics(reader);
    const std::vector<int64_t> ids = chosen_invocations(options, reader);
    double left = options.search.seconds;
    for (size_t i = 0; i < ids.size(); ++i) {
      // What one does not need of its share is for those that follow.
      options.search.seconds = left / static_cast<double>(ids.size() - i);
      const size_t before = found.size();
      find_orders_in(options, reader, atomics, reader.invocation(ids[i]), progress, found, none);
      if (found.size() > before) left = std::max(0.0, left - found.back().report.seconds_of_more);
    }
    progress.show("");
    if (!found.empty()) return;
    throw Unavailable(fmt::format("{}: invocation {} has no orders: {}; msda-replay show prints what was recorded",
                                  options.capture, none.front().id, none.front().why));
  }
  int status() const { return std::ranges::any_of(found, has_faults) ? kDrift : kWithinTolerance; }
};

int order_one(const OrderOptions& options) {
  const FoundInCapture all(options);
  const auto listed = static_cast<size_t>(options.list);
  Lines lines;
  for (const FoundOrders& orders : all.found) lines.append(to_text(orders, listed, options.quiet));
  for (const auto& [id, why] : all.none) lines.add("Invocation {}: no orders: {}", id, why);
  print_result(lines, options.json, "order", to_json(options.capture, all.found, all.none, listed));
  return all.status();
}

Outcome outcome_of(const OrderOptions& options) {
  const FoundInCapture all(options);
  Outcome outcome = to_json(options.capture, all.found, all.none, 0);
  outcome.erase("invocations");
  outcome["status"] = all.status();
  return outcome;
}

void report_orders(const OrderOptions& options, const std::vector<Outcome>& outcomes) {
  const nlohmann::ordered_json added = add_up(outcomes);
  print_errors(outcomes);
  print_result(to_text(added, options.quiet), options.json, "order-many", added);
}

int run_order(OrderOptions& options) {
  check_order_flags(options);
  const Ranks ranks;
  if (!takes_many(options, ranks)) {
    options.capture = options.captures.front();
    return order_one(options);
  }
  const auto order_one = [&](const Options& of_one) {
    OrderOptions with_search = options;
    static_cast<Options&>(with_search) = of_one;
    return outcome_of(with_search);
  };
  return over_captures(options, ranks, order_one, [&](const auto& outcomes) { report_orders(options, outcomes); });
}

}  // namespace

void add_order_command(CLI::App& app, int& status) {
  const auto [command, options] = new_command<OrderOptions>(
      app, status, "order", "Read from the recorded bits in which order the atomic additions arrived", run_order);
  add_captures(command, options);
  add_invocation(command, options);
  command
      .add_option("--limit", options.search.seconds,
                  "End the search for pixels with more than --exhaustive additions after this time; default 25")
      ->type_name("SECONDS");
  command
      .add_option("--seconds-each", options.search.seconds_each,
                  "End the search for each pixel after this time; default 10")
      ->type_name("SECONDS");
  command
      .add_option(
          "--exhaustive", options.search.limits.exhaustive,
          "Try every order of up to N additions to a pixel, at most 18, default 15; 0: simulated annealing only")
      ->type_name("N")
      ->check(CLI::Range(0, 18));
  command
      .add_option("--moves", options.search.limits.moves,
                  "Orders that simulated annealing tries for a pixel with more additions; default 40000")
      ->type_name("N")
      ->check(CLI::Range(int64_t{0}, int64_t{1'000'000'000'000}));
  add_seed(command, options.seed, "Seed of the annealing");
  add_threads(command, options);
  add_count(command, "--list", options.list, "List N pixels, those that no order explains first; default 10");
  add_damaged(command, options);
  add_json(command, options);
  command.add_flag("--quiet", options.quiet, "Print only how many pixels an order explains");
  add_operator(command);
  command.footer(
      "Exit status: 0 no pixel is impossible, 1 no order explains some pixel, 2 bad usage or bad input, 3 there is no "
      "order to read.");
}

}  // namespace msda::replay
