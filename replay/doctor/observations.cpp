#include "replay/doctor/observations.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string_view>

#include "recorder/text/numbers.h"

namespace msda::replay {
namespace {

// Splits off what stands before the first tab.
std::string_view take(std::string_view& rest) {
  const size_t end = std::min(rest.find('\t'), rest.size());
  const std::string_view first = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return first;
}

void add(Observations& all, int64_t process, std::string_view event, std::string_view text) {
  if (event == "loaded") {
    ObservedProcess& known = all.processes[process];
    known.program = text;  // a process that starts another program in its place is loaded again
    known.has_ended = false;
  } else if (event == "ended") {
    if (const auto known = all.processes.find(process); known != all.processes.end()) known->second.has_ended = true;
  } else if (event == "driver") {
    all.processes[process].has_driver = true;
  } else if (event == "matched") {
    const std::string adapter(take(text));
    all.kernels[std::string(text)] = {ObservedKernel::Fate::kMatched, adapter};
  } else if (event == "unmatched" || event == "excluded") {
    all.kernels.try_emplace(
        std::string(text),
        ObservedKernel{event == "excluded" ? ObservedKernel::Fate::kExcluded : ObservedKernel::Fate::kUnmatched, ""});
  } else if (event == "refused") {
    const std::string kernel(take(text));
    all.refused[kernel].insert(std::string(text));
  } else if (event == "output") {
    if (std::ranges::find(all.outputs, text) == all.outputs.end()) all.outputs.emplace_back(text);
  } else if (event == "completed") {
    all.completed += text::parse_number<int64_t>(std::string(text)).value_or(0);
  } else if (event == "discarded") {
    ++all.discards;
  } else if (event == "cupti") {
    all.why_no_cupti = text;
  } else if (event == "warning" && !text.starts_with("kernel ")) {  // those of kernels are "refused"
    if (std::ranges::find(all.warnings, text) == all.warnings.end()) all.warnings.emplace_back(text);
  }
}

}  // namespace

Observations read_observations(const std::string& path) {
  Observations all;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line) && !file.eof();) {  // a line without its end is incomplete
    std::string_view rest = line;
    const auto process = text::parse_number<int64_t>(std::string(take(rest)));
    const std::string_view event = take(rest);
    if (process) add(all, *process, event, rest);
  }
  return all;
}

}  // namespace msda::replay
