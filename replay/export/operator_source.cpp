#include "replay/export/operator_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/operators/scatter/call.h"
#include "replay/export/part.h"
#include "replay/own/described_operator.h"

namespace msda::replay {
namespace {

// Returns nothing if neither the capture nor this program holds the definition, or if its numbers were not recorded.
std::optional<OperatorSource> source_of(const OwnCall& call, const capture::CallFacts& facts) {
  const auto stored = facts.texts.find("definition"), scalars = facts.texts.find("scalars");
  const std::string& built_in = call.described().spec().text;
  const std::string& definition = stored == facts.texts.end() ? built_in : stored->second;
  if (definition.empty() || (!built_in.empty() && scalars == facts.texts.end())) return std::nullopt;
  return OperatorSource{part("python/evaluate.py") + "\n\n" + part("python/own.py"),
                        "",
                        {{"dialect", call.operator_name()},
                         {"definition", definition},
                         {"scalars", scalars == facts.texts.end() ? "" : scalars->second}}};
}

std::string name_in(const std::string& name, Language language) {
  std::string text = language == Language::kCpp ? "k" : "";
  bool begins = true;
  for (const char c : name) {
    const char upper = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
    if (language == Language::kPython) {
      text += upper;
    } else if (c != '_') {
      text += begins ? upper : c;
    }
    begins = c == '_';
  }
  return text;
}

struct Definition {
  std::string name;
  Language language;

  std::string of(const char* cpp_type, const std::string& value) const {
    if (language == Language::kPython) return fmt::format("{} = {}\n", name, value);
    return fmt::format("{} = {};\n", fmt::format(fmt::runtime(cpp_type), name), value);
  }
  std::string operator()(const std::string& text) const { return of("constexpr char {}[]", string_literal(text)); }
  std::string operator()(bool flag) const {
    const char* value = flag ? "true" : "false";
    return of("constexpr bool {}", language == Language::kPython ? (flag ? "True" : "False") : value);
  }
  std::string operator()(int64_t number) const { return of("constexpr long {}", fmt::format("{}", number)); }
  std::string operator()(const std::vector<double>& numbers) const {
    const bool python = language == Language::kPython;
    return of("constexpr double {}[]",
              fmt::format("{}{}{}", python ? "[" : "{", fmt::join(numbers, ", "), python ? "]" : "}"));
  }
};

}  // namespace

std::optional<OperatorSource> operator_source(const ExportedCall& exported) {
  const analysis::Call& call = exported.call();
  const capture::CallFacts& facts = exported.invocation().facts;
  if (const auto* own = dynamic_cast<const OwnCall*>(&call)) return source_of(*own, facts);
  const bool scatters = dynamic_cast<const analysis::ScatterCall*>(&call) != nullptr;
  const auto formulas = [&](const std::string& folder, const char* ending) {
    const std::string own = part(fmt::format("{}/{}.{}", folder, call.operator_name(), ending));
    return own.empty() || !scatters ? own : part(fmt::format("{}/scatter.{}", folder, ending)) + own;
  };
  OperatorSource source{formulas("python", "py"), formulas("cpp", "cpp"), {{"dialect", call.arithmetic_name()}}};
  if (source.python.empty()) return std::nullopt;
  for (analysis::Convention& convention : call.convention_values()) source.conventions.push_back(std::move(convention));
  return source;
}

std::string definitions(const std::vector<analysis::Convention>& conventions, Language language) {
  std::string text;
  for (const analysis::Convention& convention : conventions)
    text += std::visit(Definition{name_in(convention.name, language), language}, convention.value);
  return text;
}

}  // namespace msda::replay
