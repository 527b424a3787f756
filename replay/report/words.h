// A result in words, the same in every printer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "replay/report/result.h"

namespace msda::replay {

// What a group's title says.
struct GroupTitle {
  std::string cause;
  analysis::AtFault at_fault;
  bool advisory;
  int64_t elements;
  std::string tensor;
  bool tolerance_given;
};
std::string title_of(const GroupTitle& group);  // "the reference is wrong in 1 element of grad_sampling_locations"
// "reference"; "nobody" is at fault where it is the tolerance and nobody set one.
const char* party_of(analysis::AtFault at_fault, bool tolerance_given);
const char* grade_of(const GroupTitle& group);  // "error": a side is wrong; "warning": none is; "note": advice

// Returns what the elements have in common, and where they lie otherwise.
std::string whereabouts_of(const analysis::Group& group, const InvocationResult& result);
// "x is 0.6 times what it should be (320 elements), y 1.67 times (319)"; empty if they are wrong in many ways.
std::string patterns_of(const analysis::Group& group);
// Returns how many of the elements are, for the same cause, in a group that is no advice: what a test against
// another dialect in float32 meets is mostly what the recorded reference met.
int64_t reported_elsewhere(const analysis::Group& advice, const std::vector<analysis::Group>& groups);

// "batch 0, query 948, head 0, level 0 (64 x 64), point 2, x"; breaks between lines at the commas only.
std::string place_of(const analysis::Finding& finding, const InvocationResult& result);
// "recorded 1.5, reference 2, float64 1.5: 0.5 apart, 0.02 allowed"
std::string values_text(const analysis::Finding& finding, const InvocationResult& result);

// "grad_value[0,3,1,7]"
std::string element_name(const analysis::Finding& finding);

std::string operator_and_conventions(const capture::Invocation& invocation);  // with the operator, or its dialect
std::string tolerance_text(const InvocationResult& result);
// Units in the last place say something of numbers that agree to some digits; "-" for others.
std::string ulp_text(uint64_t ulp);

}  // namespace msda::replay
