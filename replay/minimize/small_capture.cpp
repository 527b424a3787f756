#include "replay/minimize/small_capture.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "analysis/model/dialects.h"
#include "analysis/model/kernels.h"
#include "kernels/names.h"
#include "recorder/capture/writer.h"
#include "recorder/writer/version.h"
#include "replay/calls/load_operator.h"
#include "replay/calls/tensor_views.h"
#include "replay/own/own_operator.h"

namespace msda::replay {
namespace {

// Attributes that say how the recorded kernel was launched. An operator of the user's own is described in their terms.
bool is_of_the_launch(std::string_view name) {
  constexpr std::string_view kNames[] = {"pointers",  "cooperative", "cluster_x",
                                         "cluster_y", "cluster_z",   "programmatic_serialization",
                                         "adapter",   "scalars"};
  return std::ranges::find(kNames, name) != std::end(kNames);
}

capture::CallFacts facts_of(const capture::Invocation& invocation) {
  const capture::CallFacts& whole = invocation.facts;
  const bool is_own = own_operator_of(invocation) != nullptr;
  capture::CallFacts facts;
  static_cast<tensors::Facts&>(facts) = whole;
  facts.kernel = whole.kernel;
  facts.dialect = whole.dialect;
  facts.padding_mode = whole.padding_mode;
  facts.align_corners = whole.align_corners;
  facts.label = whole.label;
  if (is_own) facts.grid = whole.grid;
  if (is_own) facts.block = whole.block;
  std::erase_if(facts.texts, [&](const auto& fact) {
    const bool names_it = fact.first == "adapter" || fact.first == "scalars";
    return is_of_the_launch(fact.first) && !(is_own && names_it);
  });
  std::erase_if(facts.integers, [](const auto& fact) { return is_of_the_launch(fact.first); });
  return facts;
}

// "outputs/grad_value: 3 of 16 elements, float32, ...; ..."
std::string minimized_by(const analysis::Minimized& minimized) {
  std::string text;
  for (const auto& replayed : minimized.call->replayed) {
    text += fmt::format("{}{}: {} of {} elements, {}", text.empty() ? "" : "; ", path_in_capture(replayed),
                        replayed.elements, replayed.total, arithmetic_of(minimized, replayed));
  }
  return text.empty() ? "nothing: every element has its recorded bits" : text;
}

}  // namespace

std::string arithmetic_of(const analysis::Minimized& minimized, const analysis::ReplayedElements& replayed) {
  const analysis::Material& material = minimized.call->material;
  const bool recorded = replayed.side == "recorded";
  const analysis::Side& side = recorded ? material.recorded : *material.reference;
  const analysis::Replayed& how = minimized.reached.recipe.replayed;
  const msda_options options = analysis::options_of(how, side);
  std::string text = fmt::format("mode {}", kernels::name_of(options.mode));
  if (options.mode == MSDA_MODE_ATOMIC) text += fmt::format(", seed {}", options.seed);
  if (options.mode == MSDA_MODE_MIXED) {
    std::vector<std::string> stages;
    const auto names = material.call->kernels()->float64_stages();
    for (size_t i = 0; i < names.size(); ++i) {
      if ((options.float64_stages >> i & 1) != 0) stages.emplace_back(names[i]);
    }
    text += fmt::format(", {} in float64", fmt::join(stages, " and "));
  }
  if (recorded && how.adds_before) text += ", outputs_before added";
  return text;
}

std::string path_in_capture(const analysis::ReplayedElements& replayed) {
  return (replayed.side == "recorded" ? "outputs/" : "results/" + replayed.side + "/") + replayed.tensor;
}

void write_small_capture(const std::string& path, bool replace, const std::string& from, const capture::Run& run,
                         const capture::Invocation& invocation, const std::optional<analysis::Tolerance>& tolerance,
                         const std::string& element, const analysis::Minimized& minimized) {
  const analysis::Material& material = minimized.call->material;
  capture::CallFacts facts = facts_of(invocation);
  if (tolerance) facts.tolerance = {tolerance->atol, tolerance->rtol};
  facts.texts["minimized_from"] = fmt::format("{} invocation {}", from, invocation.id);
  facts.texts["minimized_element"] = element;
  facts.texts["minimized_replayed"] = minimized_by(minimized);

  using Writer = capture::Writer;
  Writer writer(path, replace ? Writer::IfExists::kReplace : Writer::IfExists::kRefuse, record::version());
  writer.write_run(run, {});
  writer.write_verdict(minimized.report.verdict.summary);
  writer.begin_invocation(facts);
  for (const auto& tensor : minimized.call->inputs) writer.add_input(view_of(tensor.name.c_str(), tensor.view()));
  for (const auto& view : gradients_of(*material.call, material.before)) writer.add_output_before(view);
  for (const auto& view : gradients_of(*material.call, material.recorded.tensors)) writer.add_output(view);
  if (material.reference) {
    const std::string dialect = dialect_of(material.reference->version_of(*material.call));
    writer.add_result({"reference", "reference", dialect}, gradients_of(*material.call, material.reference->tensors));
  }
  writer.flush();
  writer.close();
}

}  // namespace msda::replay
