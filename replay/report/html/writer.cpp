#include "replay/report/html/writer.h"

#include <fmt/format.h>

#include "recorder/text/escape.h"

namespace msda::replay {

void Html::text(std::string_view text) {
  for (const char c : text::escaped(text)) {
    switch (c) {
      case '&':
        markup_ += "&amp;";
        break;
      case '<':
        markup_ += "&lt;";
        break;
      case '>':
        markup_ += "&gt;";
        break;
      case '"':
        markup_ += "&quot;";
        break;
      case '\'':
        markup_ += "&#39;";
        break;
      default:
        markup_ += c;
    }
  }
}

void Html::open(std::string_view tag, Attributes attributes, std::string_view end) {
  markup_ += '<';
  markup_ += tag;
  for (const auto& [name, value] : attributes) {
    markup_ += ' ';
    markup_ += name;
    markup_ += "=\"";
    text(value);
    markup_ += '"';
  }
  markup_ += end;
}

void Html::close(std::string_view tag) {
  markup_ += "</";
  markup_ += tag;
  markup_ += ">";
}

void Html::add(std::string_view tag, Attributes attributes, std::string_view text_within) {
  open(tag, attributes);
  text(text_within);
  close(tag);
}

void Html::empty(std::string_view tag, Attributes attributes) { open(tag, attributes, "/>"); }

std::string coordinate_text(double x) {
  std::string text = fmt::format("{:.3f}", x);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

void add_label(Html& html, double x, double y, const char* anchor, const std::string& text) {
  html.add("text", {{"x", coordinate_text(x)}, {"y", coordinate_text(y)}, {"text-anchor", anchor}}, text);
}

}  // namespace msda::replay
