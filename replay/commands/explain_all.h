// The whole way of a capture: every invocation explained, and what follows from all of them.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "replay/commands/explain.h"

namespace msda::replay {

// What became of the invocations.
struct Found {
  std::vector<InvocationResult> results;
  std::vector<Relaunched> relaunched;
  std::vector<NotReplayed> not_replayed;
};

// `look` is called for each invocation that is explained.
Found find_all(const Options& options, const capture::IsolatedReader& reader, const Look& look = {});
Conclusion conclude(const Found& found);
// Returns the exit status: drift also where --poison found a race, or a read of what nobody wrote.
int status_of(const Conclusion& conclusion);

// Returns the calls' labels, each once, in the order in which they occur.
std::vector<std::string> labels_of(const std::vector<InvocationResult>& results);

// Where nothing can be judged. They throw Unavailable and BadInput.
[[noreturn]] void refuse_not_replayed(const Options& options, const std::vector<NotReplayed>& not_replayed);
[[noreturn]] void refuse_nothing_to_compare(const Options& options, const std::vector<InvocationResult>& results);

// Returns what a report on many captures needs of one (replay/many/many.h). Throws as those two.
nlohmann::ordered_json outcome_of(const Options& options, const capture::IsolatedReader& reader, const Found& found);

// Returns the flags that decide what is compared, as words of a command line, each after a space.
std::string comparison_flags(const Options& options);
// Returns the capture, the invocation if one was chosen, and those flags.
std::string flags_of(const Options& options);

}  // namespace msda::replay
