#include "replay/report/html/joined_surveys.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "replay/report/html/survey_json.h"
#include "replay/report/words.h"

namespace msda::replay {
namespace {

using analysis::thousands;

std::string share_text(const Json& part) {
  const int64_t varied = count_of(part, "varied");
  return fmt::format("{} of {}", thousands(varied > 0 ? varied : count_of(part, "depend")),
                     thousands(count_of(part, "surveyed")));
}

void add_kernel_row(Html& html, const Json& kernel, const std::map<std::string, std::string>& page_of) {
  const auto row = html.in("tr", {{"class", "bad"}});
  html.add("td", {{"class", "wrap mono"}}, text_of(kernel, "kernel"));
  html.add("td", {{"class", "mono"}}, text_of(kernel, "kernel_digest").substr(0, 17));
  html.add("td", text_of(kernel, "verdict"));
  html.add("td", {{"class", "number"}}, share_text(kernel));
  const auto cell = html.in("td");
  int64_t steady = 0;
  for (const Json& part : kernel.at("captures")) {
    if (!may_differ(part)) {
      ++steady;
      continue;
    }
    const auto line = html.in("div");
    const std::string capture = text_of(part, "capture");
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
  if (std::ranges::none_of(kernels, may_differ)) {
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
    if (may_differ(kernel)) add_kernel_row(html, kernel, page_of);
  }
}

}  // namespace msda::replay
