// The pages of a capture, and of many.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "replay/report/html/pictures.h"
#include "replay/report/result.h"

namespace msda::replay {

// One invocation, with what the page shows of it beside the result. JSON is what the commands of that name print; null
// or empty: left out.
struct ReportedInvocation {
  InvocationResult result;
  Pictures pictures;
  nlohmann::ordered_json shown;     // by `show`
  nlohmann::ordered_json stages;    // the summary of `stages`
  nlohmann::ordered_json elements;  // by `stages`, of the worst of each group
  nlohmann::ordered_json order;     // by `order`
  nlohmann::ordered_json stress;    // by `stress`
  bool is_brief = false;            // a row in a table has to do: only the verdict and facts of `result` are there
};

struct ReportedCapture {
  std::string capture;
  std::string flags;             // the capture, and what decides the comparison, as words of a command line
  std::string stress_flags;      // the same for stress
  nlohmann::ordered_json shown;  // by `show`, without its invocations
  std::vector<ReportedInvocation> invocations;
  std::vector<Relaunched> relaunched;
  std::vector<NotReplayed> not_replayed;
  Conclusion conclusion;
  std::string version;  // of this program
};

std::string html_of(ReportedCapture report);

// Returns a page over many: what was joined (docs/run-many.schema.json), and the surveys among them
// (docs/survey-many.schema.json), with a link to each capture's own page. `pages`: their names, by capture; empty for
// one that could not be read.
std::string html_of_index(nlohmann::ordered_json joined, const nlohmann::ordered_json& surveys,
                          const std::vector<std::string>& pages, const std::string& version);

}  // namespace msda::replay
