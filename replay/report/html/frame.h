// What all pages of HTML have: the template, and links to their sections.
#pragma once

#include <string>
#include <vector>

#include "replay/report/html/writer.h"

namespace msda::replay {

// Returns the template with a title and a body.
std::string page_of_html(const std::string& title, const Html& body);

// One of the figures at the top.
void add_figure(Html& html, const char* name, const std::string& value);

struct Link {
  std::string id, text;
};
void add_navigation(Html& html, const std::vector<Link>& links);

}  // namespace msda::replay
