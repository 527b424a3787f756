// msda-replay order: in which order the atomic additions arrived, read from the recorded bits.
#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "replay/base/errors.h"
#include "replay/base/output.h"
#include "replay/base/progress.h"
#include "replay/calls/damage.h"
#include "replay/calls/load_operator.h"
#include "replay/calls/loaded_call.h"
#include "replay/commands/commands.h"
#include "replay/report/orders.h"

namespace msda::replay {
namespace {

struct OrderOptions : Options {
  analysis::OrderSettings search;
  size_t list = 10;
};

void check(const OrderOptions& options) {
  check_numbers(options);
  for (const auto& [flag, seconds] :
       {std::pair{"--limit", options.search.seconds}, {"--seconds-each", options.search.seconds_each}}) {
    if (!(seconds > 0 && std::isfinite(seconds))) {
      throw BadInput(fmt::format("{} {}: give seconds, more than 0", flag, seconds));
    }
  }
}

// Adds the orders of the invocation's scattered gradients, or why there are none.
void find_in(const OrderOptions& options, const capture::IsolatedReader& reader, const capture::Invocation& invocation,
             const Progress& progress, std::vector<FoundOrders>& found, std::vector<NoOrders>& none) {
  if (const std::string why = why_not_replayed(invocation); !why.empty()) {
    none.push_back({invocation.id, why});
    return;
  }
  const LoadedCall loaded(options, reader, invocation);
  std::string why = "no gradient that adds up samples was recorded";
  for (const auto gradient : loaded.call().gradients()) {
    const analysis::Tensor& recorded = loaded.recorded().of(gradient);
    if (!gradient.scattered() || !recorded) continue;
    const analysis::Tensor& before = loaded.before(gradient);
    const analysis::OrderMaterial material{loaded.call(), gradient, recorded, before ? &before : nullptr,
                                           invocation.facts.kernel};
    analysis::OrderSettings settings = options.search;
    settings.threads = static_cast<int>(options.threads);
    settings.limits.seed = options.seed;
    auto report = analysis::find_orders(material, settings, [&](double share) {
      progress.show(fmt::format("invocation {}: {}, {:.0f} %", invocation.id, gradient.name(), 100 * share));
    });
    if (report) {
      found.push_back({invocation.id, operator_of(invocation), invocation.facts.kernel, loaded.call().outline(),
                       gradient, *std::move(report), loaded.altered()});
      return;
    }
    why = fmt::format("the operator {} does not tell its additions", operator_of(invocation));
  }
  none.push_back({invocation.id, why});
}

int run(const OrderOptions& options) {
  check(options);
  const capture::IsolatedReader reader(options.capture);
  const Progress progress(!options.quiet);
  std::vector<FoundOrders> found;
  std::vector<NoOrders> none;
  for (const int64_t id : chosen_invocations(options, reader)) {
    find_in(options, reader, reader.invocation(id), progress, found, none);
  }
  progress.show("");
  if (found.empty()) {
    throw Unavailable(fmt::format("{}: invocation {} has no orders: {}; msda-replay show tells what was recorded",
                                  options.capture, none.front().id, none.front().why));
  }
  Lines lines;
  bool faults = false;
  for (const FoundOrders& one : found) {
    lines.append(to_text(one, options.list, options.quiet));
    faults = faults || has_faults(one.report);
  }
  for (const auto& [id, why] : none) lines.add("Invocation {}: no orders: {}", id, why);
  if (options.json != "-") print(lines);
  if (!options.json.empty()) write_json(options.json, to_json(options.capture, found, none, options.list));
  return faults ? kDrift : kWithinTolerance;
}

}  // namespace

void add_order_command(CLI::App& app, int& status) {
  auto options = std::make_shared<OrderOptions>();
  CLI::App* command =
      app.add_subcommand("order", "Read from the recorded bits in which order the atomic additions arrived");
  add_capture(*command, *options);
  add_invocation(*command, *options);
  command->add_option("--limit", options->search.seconds, "Give up the search for more additions after so many seconds")
      ->type_name("SECONDS");
  command
      ->add_option("--seconds-each", options->search.seconds_each,
                   "Give up the search for a pixel after so many seconds")
      ->type_name("SECONDS");
  command
      ->add_option("--exhaustive", options->search.limits.exhaustive,
                   "Search every order of up to this many additions to a pixel, at most 18")
      ->type_name("N")
      ->check(CLI::Range(0, 18));
  command
      ->add_option("--moves", options->search.limits.moves,
                   "Orders to try by simulated annealing for a pixel with more additions")
      ->type_name("N")
      ->check(CLI::Range(int64_t{0}, int64_t{1'000'000'000'000}));
  command->add_option("--seed", options->seed, "Seed of the annealing")->type_name("N");
  command->add_option("--threads", options->threads, "CPU threads; 0 is one a core")->type_name("N");
  command->add_option("--list", options->list, "List so many pixels, what no order explains first")->type_name("N");
  command->add_flag("--damaged", options->damaged, "Continue with data that do not match their digests");
  add_json(*command, *options);
  command->add_flag("--quiet", options->quiet, "Print how many pixels an order explains only");
  command->callback([options, &status] { status = run(*options); });
}

}  // namespace msda::replay
