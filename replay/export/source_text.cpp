#include "replay/export/source_text.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdlib>

#include "recorder/text/escape.h"
#include "replay/base/json.h"
#include "replay/report/diagnosis.h"
#include "replay/report/words.h"

namespace msda::replay {
namespace {

// Returns the shortest decimal that a reader of float64, who rounds to the type once more, takes for this very value.
std::string decimal(double value, msda_dtype dtype) {
  std::string text = fmt::format("{}", value);
  if (dtype != MSDA_FLOAT64) {
    const auto narrow = static_cast<float>(value);
    std::string shorter = fmt::format("{}", narrow);
    if (static_cast<float>(std::strtod(shorter.c_str(), nullptr)) == narrow) text = std::move(shorter);
  }
  return text == "-0" ? "-0.0" : text;
}

std::string literal(const analysis::Tensor& tensor, int64_t flat, Language language) {
  const double value = tensor.at(flat);
  if (tensor.dtype == MSDA_INT32 || tensor.dtype == MSDA_INT64) return fmt::format("{}", static_cast<int64_t>(value));
  if (std::isinf(value))
    return fmt::format("{}{}", value < 0 ? "-" : "", language == Language::kCpp ? "INFINITY" : "inf");
  return language == Language::kCpp ? fmt::format("{:a}", value) : decimal(value, tensor.dtype);
}

bool has_nan(const analysis::Tensor& tensor) {
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    if (std::isnan(tensor.at(i))) return true;
  }
  return false;
}

}  // namespace

std::string diagnosis_comment(const ExportedCall& call, std::string_view prefix) {
  constexpr size_t kWidth = 100;  // of a line of source
  Page page({kWidth});
  page.paragraph({{call.result().report.verdict.summary}});
  page.blank();
  add_diagnosis(page, *call.shown->group, call.result(), {false, false, {}, call.flags}, false);
  if (call.shown->finding != call.shown->group->farthest) {
    page.blank();
    page.paragraph({{fmt::format("Here: {}, {}", element_name(call.finding()), call.finding().why)}});
  }
  std::string text;
  std::string_view rest = page.text();
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    std::string line = fmt::format("{}{}", prefix, rest.substr(0, end));
    while (line.ends_with(' ')) line.pop_back();
    if (line.ends_with('\\')) line += '.';  // a backslash would continue a comment of C++
    text += line + "\n";
    rest.remove_prefix(end + 1);
  }
  return text;
}

bool fits_inline(const ExportedCall& call) {
  constexpr int64_t kMost = 1500;
  int64_t numbers = 0;
  for (const KeyedTensor& keyed : call.tensors(true)) {
    numbers += keyed.tensor.elements();
    if (numbers > kMost || has_nan(keyed.tensor)) return false;
  }
  return true;
}

std::string literals(const analysis::Tensor& tensor, Language language, size_t indent) {
  constexpr size_t kWidth = 116;
  std::string text, line(indent, ' ');
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    const std::string number = literal(tensor, i, language) + (i + 1 < tensor.elements() ? "," : "");
    if (line.size() > indent && line.size() + 1 + number.size() > kWidth) {
      text += line + "\n";
      line.assign(indent, ' ');
    }
    if (line.size() > indent) line += ' ';
    line += number;
  }
  return text + line;
}

std::string string_literal(std::string_view text) {
  // After escaping, no control characters are left of which the languages' escapes differ.
  return line_of(Json(text::escaped(text)));
}

}  // namespace msda::replay
