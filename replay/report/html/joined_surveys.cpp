#include "replay/report/html/joined_surveys.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "replay/base/json.h"
#include "replay/report/words.h"

namespace msda::replay {
namespace {

using analysis::thousands;

// Returns whether a kernel's results can differ, in one survey or in all.
bool can_differ(const Json& part) {
  return count_at(part, "varied") > 0 || text_at(part, "verdict") == "reads_unwritten";
}

std::string share_text(const Json& part) {
  const int64_t varied = count_at(part, "varied");
  return fmt::format("{} of {}", thousands(varied > 0 ? varied : count_at(part, "depend")),
                     thousands(count_at(part, "surveyed")));
}

void add_kernel_row(Html& html, const Json& kernel, const std::map<std::string, std::string>& page_of) {
  const auto row = html.in("tr", {{"class", "bad"}});
  html.add("td", {{"class", "wrap mono"}}, text_at(kernel, "kernel"));
  html.add("td", {{"class", "mono"}}, text_at(kernel, "kernel_digest").substr(0, 17));
  html.add("td", text_at(kernel, "verdict"));
  html.add("td", {{"class", "number"}}, share_text(kernel));
  const auto cell = html.in("td");
  int64_t steady = 0;
  for (const Json& part : kernel.at("captures")) {
    if (!can_differ(part)) {
      ++steady;
      continue;
    }
    const auto line = html.in("div");
    const std::string capture = text_at(part, "capture");
    add_capture_name(html, capture, page_of.at(capture));
    html.text(fmt::format(": {}", share_text(part)));
  }
  if (steady > 0)
    html.add("div", {{"class", "quiet"}}, fmt::format("not in {} other{}", thousands(steady), steady == 1 ? "" : "s"));
}

}  // namespace

void add_capture_name(Html& html, const std::string& capture, const std::string& page) {
  if (page.empty()) {
    html.add("span", {{"class", "mono"}}, capture);
  } else {
    html.add("a", {{"href", page}, {"class", "mono"}}, capture);
  }
}

void add_joined_surveys(Html& html, const Json& surveys, const std::map<std::string, std::string>& page_of) {
  const Json& kernels = surveys.at("kernels");
  if (std::ranges::none_of(kernels, can_differ)) {
    html.add("p", {{"class", "note good"}}, "No kernel varies in any survey.");
    return;
  }
  const auto scroll = html.in("div", {{"class", "scroll"}, {"tabindex", "0"}});
  const auto table = html.in("table");
  {
    const auto head = html.in("thead");
    const auto row = html.in("tr");
    for (const char* name : {"kernel", "code", "verdict", "launches", "in"}) html.add("th", {{"scope", "col"}}, name);
  }
  for (const Json& kernel : kernels) {
    if (can_differ(kernel)) add_kernel_row(html, kernel, page_of);
  }
}

}  // namespace msda::replay
