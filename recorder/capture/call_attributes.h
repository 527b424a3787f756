// The table of a recorded call's attributes, which the reader, the writer, `show` and the recorder's builder share. The
// Python package has a copy (tests/python/package/test_package.py compares).
#pragma once

#include <string_view>

#include "recorder/capture/capture.h"

namespace msda::capture {

// Calls visit(name, member) for each. A tolerance is two attributes of the file: atol and rtol.
template <class Facts, class Visit>
void for_each_call_attribute(Facts& facts, Visit&& visit) {
  visit("kernel", facts.kernel);
  visit("dialect", facts.dialect);
  visit("kernel_digest", facts.kernel_digest);
  visit("grid", facts.grid);
  visit("block", facts.block);
  visit("shared_bytes", facts.shared_bytes);
  visit("stream", facts.stream);
  visit("device", facts.device);
  visit("process", facts.process);
  visit("thread", facts.thread);
  visit("duplicates", facts.duplicates);
  visit("distinct_outputs", facts.distinct_outputs);
  visit("time", facts.time);
  visit("label", facts.label);
  visit("tolerance", facts.tolerance);
}

// The attributes that have this meaning only in a call with a dialect; for any other kernel they are ordinary facts.
template <class Facts, class Visit>
void for_each_convention(Facts& facts, Visit&& visit) {
  visit("padding_mode", facts.padding_mode);
  visit("align_corners", facts.align_corners);
}

// Returns whether an attribute of an invocation is one of these; without a dialect the conventions are not.
bool is_call_attribute(std::string_view name, bool has_dialect);

}  // namespace msda::capture
