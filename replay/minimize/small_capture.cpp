#include "replay/minimize/small_capture.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "kernels/names.h"
#include "recorder/capture/writer.h"
#include "recorder/writer/version.h"
#include "replay/calls/load_operator.h"

namespace msda::replay {
namespace {

capture::ElementType element_type_of(msda_dtype dtype) {
  switch (dtype) {
    case MSDA_FLOAT16:
      return capture::ElementType::kFloat16;
    case MSDA_BFLOAT16:
      return capture::ElementType::kBFloat16;
    case MSDA_FLOAT64:
      return capture::ElementType::kFloat64;
    case MSDA_INT32:
      return capture::ElementType::kInt32;
    case MSDA_INT64:
      return capture::ElementType::kInt64;
    default:
      return capture::ElementType::kFloat32;
  }
}

capture::TensorView view_of(const char* name, const analysis::Tensor& tensor) {
  return {name, element_type_of(tensor.dtype), tensor.shape,
          {static_cast<const std::byte*>(tensor.data), analysis::bytes_of(tensor)}};
}

// Attributes that say how the recorded kernel was launched.
bool is_of_the_launch(std::string_view name) {
  constexpr std::string_view kNames[] = {"pointers",  "cooperative", "cluster_x", "cluster_y", "cluster_z",
                                         "programmatic_serialization", "adapter", "scalars"};
  return std::ranges::find(kNames, name) != std::end(kNames);
}

capture::CallFacts facts_of(const capture::CallFacts& whole) {
  capture::CallFacts facts;
  facts.kernel = whole.kernel;
  facts.dialect = whole.dialect;
  facts.padding_mode = whole.padding_mode;
  facts.align_corners = whole.align_corners;
  facts.label = whole.label;
  facts.texts = whole.texts;
  facts.integers = whole.integers;
  std::erase_if(facts.texts, [](const auto& one) { return is_of_the_launch(one.first); });
  std::erase_if(facts.integers, [](const auto& one) { return is_of_the_launch(one.first); });
  return facts;
}

// "outputs/grad_value: 3 of 16 elements; ..."
std::string text_of(const std::vector<analysis::ReplayedElements>& all, const analysis::Replayed& how) {
  std::string text;
  for (const auto& one : all) {
    text += fmt::format("{}{}: {} of {} elements", text.empty() ? "" : "; ", path_in_capture(one), one.elements,
                        one.total);
  }
  if (!text.empty() && how.mode == MSDA_MODE_ATOMIC) text += fmt::format(" (mode atomic, seed {})", how.seed);
  if (!text.empty() && how.adds_before) text += " (outputs_before added)";
  return text;
}

std::vector<capture::TensorView> gradients_of(const analysis::Call& call, const analysis::Tensor* tensors) {
  std::vector<capture::TensorView> views;
  for (const auto gradient : call.gradients()) {
    const analysis::Tensor& tensor = tensors[gradient.place()];
    if (tensor) views.push_back(view_of(gradient.name(), tensor));
  }
  return views;
}

}  // namespace

std::string path_in_capture(const analysis::ReplayedElements& replayed) {
  return (replayed.side == "recorded" ? "outputs/" : "results/" + replayed.side + "/") + replayed.tensor;
}

void write_small_capture(const std::string& path, bool replace, const std::string& from, const capture::Run& run,
                         const capture::Invocation& invocation, const std::optional<analysis::Tolerance>& tolerance,
                         const std::string& element, const analysis::Minimized& minimized) {
  const analysis::Material& material = minimized.call->material;
  capture::CallFacts facts = facts_of(invocation.facts);
  if (tolerance) facts.tolerance = {tolerance->atol, tolerance->rtol};
  facts.texts["minimized_from"] = fmt::format("{} invocation {}", from, invocation.id);
  facts.texts["minimized_element"] = element;
  const std::string replayed = text_of(minimized.call->replayed, minimized.reached.recipe.replayed);
  facts.texts["minimized_replayed"] = replayed.empty() ? "nothing: every element has its recorded bits" : replayed;

  using Writer = capture::Writer;
  Writer writer(path, replace ? Writer::IfExists::kReplace : Writer::IfExists::kRefuse, record::version());
  writer.write_run(run, {});
  writer.begin_invocation(facts);
  for (const auto& tensor : minimized.call->inputs) writer.add_input(view_of(tensor.name.c_str(), tensor.view()));
  for (const auto& view : gradients_of(*material.call, material.before)) writer.add_output_before(view);
  for (const auto& view : gradients_of(*material.call, material.recorded.tensors)) writer.add_output(view);
  if (material.reference) {
    const auto& conventions = material.reference->conventions;
    const std::string dialect = operator_of(invocation) == "msda" ? kernels::name_of(conventions.dialect) : "";
    writer.add_result({"reference", "reference", dialect}, gradients_of(*material.call, material.reference->tensors));
  }
  writer.flush();
  writer.close();
}

}  // namespace msda::replay
