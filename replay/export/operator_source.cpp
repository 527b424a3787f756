#include "replay/export/operator_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/operators/grid_sample/call.h"
#include "analysis/operators/interpolate/call.h"
#include "analysis/operators/own/call.h"
#include "analysis/operators/roi_align/call.h"
#include "analysis/operators/scatter_add/call.h"
#include "replay/calls/load_operator.h"
#include "replay/export/parts.h"

namespace msda::replay {
namespace {

OperatorSource msda_source(const ExportedCall& call) {
  const capture::CallFacts& facts = call.invocation().facts;
  return {parts::kPythonMsda,
          parts::kCppMsda,
          true,
          {{"dialect", facts.dialect}, {"padding_mode", facts.padding_mode}, {"align_corners", facts.align_corners}}};
}

OperatorSource grid_sample_source(const ExportedCall& call) {
  const capture::CallFacts& facts = call.invocation().facts;
  return {parts::kPythonGridSample,
          parts::kCppGridSample,
          true,
          {{"dialect", "grid_sample"},
           {"interpolation", facts.texts.at("interpolation")},
           {"padding_mode", facts.texts.at("padding_mode")},
           {"align_corners", dynamic_cast<const analysis::GridSampleCall&>(call.call()).align_corners}}};
}

OperatorSource scatter_source(const char* python, const char* cpp, std::vector<Convention> conventions) {
  return {std::string(parts::kPythonScatter) + python, std::string(parts::kCppScatter) + cpp, false,
          std::move(conventions)};
}

OperatorSource source_of(const analysis::ScatterAddCall& call) {
  return scatter_source(parts::kPythonScatterAdd, parts::kCppScatterAdd,
                        {{"dialect", "scatter_add"},
                         {"dim", call.dim},
                         {"reduce", call.mean ? "mean" : "sum"},
                         {"include_self", call.include_self},
                         {"wraps_negative", call.wraps},
                         {"scale_grad_by_freq", call.by_frequency},
                         {"has_padding_idx", call.padding.has_value()},
                         {"padding_idx", call.padding.value_or(0)}});
}

// Exports the scale factors that the kernel used, which may be fewer than the recorded ones.
OperatorSource source_of(const analysis::InterpolateCall& call) {
  std::vector<double> scales;
  for (int axis = 0; axis < call.axes_count; ++axis) scales.push_back(call.sides[axis].scale);
  return scatter_source(parts::kPythonInterpolate, parts::kCppInterpolate,
                        {{"dialect", "interpolate"},
                         {"mode", call.mode_name()},
                         {"align_corners", call.align_corners},
                         {"scales", scales},
                         {"for_gpu", call.is_for_gpu}});
}

OperatorSource source_of(const analysis::RoiAlignCall& call) {
  return scatter_source(parts::kPythonRoiAlign, parts::kCppRoiAlign,
                        {{"dialect", "roi_align"},
                         {"spatial_scale", std::vector<double>{call.spatial_scale}},
                         {"sampling_ratio", call.sampling_ratio},
                         {"aligned", call.aligned}});
}

// Returns nothing if the capture does not hold the definition, or if NumPy does not evaluate it.
std::optional<OperatorSource> source_of(const analysis::OwnCall& call, const capture::CallFacts& facts) {
  const auto definition = facts.texts.find("definition"), scalars = facts.texts.find("scalars");
  if (definition == facts.texts.end()) return std::nullopt;
  for (const analysis::Gradient gradient : call.gradients()) {
    if (!call.axes(call.element_id(gradient, 0)).empty()) return std::nullopt;
  }
  return OperatorSource{std::string(parts::kPythonEvaluate) + "\n\n" + parts::kPythonOwn,
                        "",
                        false,
                        {{"dialect", call.definition().schema().name()},
                         {"definition", definition->second},
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

std::optional<OperatorSource> operator_source(const ExportedCall& call) {
  if (call.call().dialects() != nullptr) return msda_source(call);
  const analysis::Call* const outline = &call.call();
  if (const auto* sums = dynamic_cast<const analysis::ScatterAddCall*>(outline)) return source_of(*sums);
  if (const auto* resize = dynamic_cast<const analysis::InterpolateCall*>(outline)) return source_of(*resize);
  if (const auto* boxes = dynamic_cast<const analysis::RoiAlignCall*>(outline)) return source_of(*boxes);
  if (const auto* own = dynamic_cast<const analysis::OwnCall*>(outline))
    return source_of(*own, call.invocation().facts);
  if (operator_of(call.invocation()) == "grid_sample") return grid_sample_source(call);
  return std::nullopt;
}

std::string definitions(const std::vector<Convention>& conventions, Language language) {
  std::string text;
  for (const Convention& convention : conventions)
    text += std::visit(Definition{name_in(convention.name, language), language}, convention.value);
  return text;
}

}  // namespace msda::replay
