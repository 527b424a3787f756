#include "replay/report/html/frame.h"

#include <string_view>

#include "replay/report/html/page_template.h"

namespace msda::replay {

std::string page_of_html(const std::string& title, const Html& body) {
  std::string page = kPageTemplate;
  const auto put = [&](std::string_view place, const std::string& markup) {
    page.replace(page.find(place), place.size(), markup);
  };
  Html escaped;
  escaped.text(title);
  put("<!--body-->", body.markup());
  put("<!--title-->", escaped.markup());
  return page;
}

void add_figure(Html& html, const char* name, const std::string& value) {
  const auto box = html.in("div");
  html.add("dt", name);
  html.add("dd", value);
}

void add_navigation(Html& html, const std::vector<Link>& links) {
  const auto nav = html.in("nav", {{"aria-label", "Contents"}});
  for (const auto& [id, text] : links) html.add("a", {{"href", "#" + id}}, text);
}

}  // namespace msda::replay
