#include "replay/report/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analysis/causes/help.h"
#include "analysis/model/additions.h"
#include "replay/own/own_operator.h"

namespace msda::replay {

using analysis::Cause;
using analysis::Finding;
using analysis::Group;

namespace {

// Returns the largest bound that the evidence of the group's findings gives; 0 if none does.
double largest_bound(const Group& group, const InvocationResult& result) {
  const char* name = group.cause == Cause::kAccumulationOrder ? "any_order_bound" : "rounding_bound";
  double most = 0;
  for (const Finding& f : result.report.findings) {
    if (!group.contains(f)) continue;
    const auto found = f.evidence.find(name);
    if (found != f.evidence.end() && found->is_number()) most = std::max(most, found->get<double>());
  }
  return most;
}

// Returns a number of two digits that is no smaller.
double rounded_up(double x) {
  if (!(x > 0) || !std::isfinite(x)) return x;
  const double unit = std::pow(10, std::floor(std::log10(x)) - 1);
  return std::ceil(x / unit) * unit;
}

std::string kind_of(const nlohmann::json& evidence) {
  if (evidence.contains("left_by") && evidence["left_by"].contains("launches")) return "launches";
  return evidence.value("kind", evidence.value("type", std::string()));
}

}  // namespace

GroupHelp help_for(const Group& group, const InvocationResult& result) {
  const std::string& kernel = result.invocation.facts.kernel;
  const bool is_defined = own_operator_of(result.invocation) != nullptr;
  const auto& evidence = result.report.findings[group.farthest].evidence;
  const std::string kind = kind_of(evidence);
  const analysis::Origin origin = is_defined ? analysis::Origin::kDefined : analysis::origin_of(kernel);
  analysis::Help help = help_on(group.cause, group.at_fault, origin, kernel, kind);
  if (const auto* own = group.cause == Cause::kCellBoundary ? result.call->jump_help() : nullptr) help = *own;

  const auto filled = [&](const char* text) {
    return fmt::format(fmt::runtime(text), fmt::arg("type", kind),
                       fmt::arg("atol", fmt::format("{:.2g}", rounded_up(largest_bound(group, result)))),
                       fmt::arg("rtol", fmt::format("{:g}", result.tolerance ? result.tolerance->rtol : 0)),
                       fmt::arg("devices", analysis::is_operator_of_pytorch(kernel) ? "(\"cpu\", \"cuda\")" : ""));
  };
  GroupHelp filled_help = {filled(help.text), filled(help.type), help.shows_stages && !is_defined};
  if (filled_help.type.empty() && is_defined) {
    filled_help.type = fmt::format("msda-replay explain {}", name_of(group.cause));
  }
  return filled_help;
}

}  // namespace msda::replay
