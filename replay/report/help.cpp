#include "replay/report/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "replay/calls/load_operator.h"
#include "replay/own/own_operator.h"

namespace msda::replay {

using analysis::AtFault;
using analysis::Cause;
using analysis::Finding;
using analysis::Group;

namespace {

// Returns the largest of a number in the evidence of the group's findings; 0 if none has it.
double largest(const Group& group, const InvocationResult& result, const char* name) {
  double most = 0;
  for (const Finding& f : result.report.findings) {
    if (!group.contains(f)) continue;
    const auto found = f.evidence.find(name);
    if (found != f.evidence.end() && found->is_number()) most = std::max(most, found->get<double>());
  }
  return most;
}

std::string wider_tolerance(double bound) {
  return bound > 0 ? fmt::format("an atol of {:.2g} covers what rounding can do to these elements", bound)
                   : std::string("an absolute tolerance has to cover what rounding can do to these elements");
}

Help for_boundary(const Group& group, const InvocationResult& result) {
  if (const char* own = result.call->jump_help()) return {own};
  const std::string jump = " The gradient jumps there, which no tolerance covers.";
  const char* lead = "Both arithmetics, stage by stage";
  switch (group.at_fault) {
    case AtFault::kReference:
      return {"compare with float64, or with a reference that computes the pixel coordinate as the kernel does." + jump,
              lead};
    case AtFault::kObserved:
      return {"compute the pixel coordinate with fewer roundings, or in float64." + jump, lead};
    default:
      return {"leave locations this close to a pixel boundary out of the comparison." + jump, lead};
  }
}

Help for_uninitialized(const Group& group, const InvocationResult& result) {
  const Finding& example = result.report.findings[group.farthest];
  if (example.evidence.value("kind", "") == "unwritten") {
    return {
        "have the kernel write every element, or zero the buffer before the launch (torch.zeros, not torch.empty)."};
  }
  return {"zero the buffer before each launch (torch.zeros, not torch.empty; reset_to_zero of triton.autotune)."};
}

Help for_reduced(const Group& group, const InvocationResult& result) {
  const Finding& example = result.report.findings[group.farthest];
  const std::string type = example.evidence.value("type", "");
  const std::string where = group.at_fault == AtFault::kReference ? "compute the reference" : "run the kernel";
  if (type == "tf32") {
    return {where +
            " without TF32 (torch.backends.cuda.matmul.allow_tf32 = False, input_precision=\"ieee\" of tl.dot), or "
            "compare with a tolerance for TF32, whose numbers have 11 significant bits."};
  }
  return {fmt::format("{} outside torch.autocast and without casts to {}, or compare with a tolerance for {}.", where,
                      type, type)};
}

Help for_order(const Group& group, const InvocationResult& result) {
  return {fmt::format("{}; a kernel that adds in one order, as mode deterministic does, does not vary.",
                      wider_tolerance(largest(group, result, "any_order_bound")))};
}

Help for_mistake(const Group& group) {
  if (group.at_fault == AtFault::kReference) {
    return {"compare with float64 in place of this reference.", "Its stages beside the kernel's arithmetic"};
  }
  return {"", "look for the stage at which the value leaves float64"};
}

Help help_with_stages(const Group& group, const InvocationResult& result) {
  switch (group.cause) {
    case Cause::kNonFinite:
      return {"", "look for where the first NaN or infinity comes from"};
    case Cause::kUninitializedOutput:
      return for_uninitialized(group, result);
    case Cause::kCellBoundary:
      return for_boundary(group, result);
    case Cause::kBorderClamp:
      return {"leave locations on the border itself out of the comparison: both subgradients are right."};
    case Cause::kStoppedSum:
      return {
          "add up, and count, in a wider type: source.float() before the sum, and round the result to the narrow "
          "type."};
    case Cause::kAccumulationOrder:
      return for_order(group, result);
    case Cause::kRounding:
      return {wider_tolerance(largest(group, result, "rounding_bound")) + "."};
    case Cause::kIllConditioned:
      return {wider_tolerance(largest(group, result, "rounding_bound")) + ".",
              "A smaller one needs float64 in the stage at which the sides begin to differ"};
    case Cause::kReducedPrecision:
      return for_reduced(group, result);
    case Cause::kImplementationError:
      break;
  }
  return for_mistake(group);
}

}  // namespace

Help help_for(const Group& group, const InvocationResult& result) {
  Help help = help_with_stages(group, result);
  if (own_operator_of(result.invocation) == nullptr) return help;
  // A user's operator has no stages: the text compares with its definition.
  if (help.sentences.empty()) {
    help.sentences = fmt::format("compare the kernel, addend by addend, with what its adapter's file says of {}.",
                                 operator_of(result.invocation));
  }
  help.lead.clear();
  return help;
}

}  // namespace msda::replay
