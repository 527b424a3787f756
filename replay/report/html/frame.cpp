#include "replay/report/html/frame.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <string_view>

#include "recorder/text/escape.h"
#include "replay/report/html/page_template.h"

namespace msda::replay {
namespace {

std::string replaced(std::string text, std::string_view what, std::string_view with) {
  for (size_t at = 0; (at = text.find(what, at)) != text.npos; at += with.size()) text.replace(at, what.size(), with);
  return text;
}

std::string markup(const std::string& text) { return replaced(replaced(text, "&", "&amp;"), "<", "&lt;"); }

// Returns the same with control characters as escapes, and integers that a script would round as texts.
Json for_script(const Json& value) {
  constexpr double kMostExact = 0x1p53;
  if (value.is_string()) return text::escaped(value.get_ref<const std::string&>());
  if (value.is_number_integer() && std::abs(value.get<double>()) > kMostExact) return value.dump();
  if (!value.is_structured()) return value;
  Json result = value.is_array() ? Json::array() : Json::object();
  for (const auto& [name, part] : value.items()) {
    if (value.is_array()) {
      result.push_back(for_script(part));
    } else {
      result[text::escaped(name)] = for_script(part);
    }
  }
  return result;
}

}  // namespace

std::string page_of_html(const std::string& title, const std::string& text, const Json& data) {
  std::string page = kPageTemplate;
  const auto put = [&](std::string_view place, const std::string& content) {
    page.replace(page.find(place), place.size(), content);
  };
  put("<!--title-->", markup(text::escaped(title)));
  put("<!--text-->", markup(text));
  // No "<" in it can end the element, or begin a comment.
  put("<!--data-->", replaced(for_script(data).dump(-1, ' ', true, Json::error_handler_t::replace), "<", "\\u003c"));
  return page;
}

}  // namespace msda::replay
