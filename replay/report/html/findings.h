// The elements out of tolerance: a card for each group, and a list of elements.
#pragma once

#include "replay/report/diagnosis.h"
#include "replay/report/html/pictures.h"
#include "replay/report/html/writer.h"

namespace msda::replay {

// Where the findings of an invocation stand in the page: what the ids of its elements begin with.
struct FindingsPlace {
  std::string prefix;    // "i0"
  std::string commands;  // the words of a command line that name the capture and the invocation
};

void add_groups(Html& html, const InvocationResult& result, const Pictures& pictures, const FindingsPlace& place);
void add_elements(Html& html, const InvocationResult& result, const Pictures& pictures, const FindingsPlace& place);

// Returns what a group's title says, as a heading.
std::string heading_of(const GroupTitle& title);
// "cell_boundary" and other words that stand out, with a class for their colour.
void add_chip(Html& html, const std::string& kind, const std::string& text);
// A command to be copied.
void add_command(Html& html, const std::string& command);

}  // namespace msda::replay
