#include "replay/own/library_operator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "recorder/adapters/user_node.h"
#include "replay/base/errors.h"
#include "replay/own/bound_library.h"

namespace msda::replay {
namespace {

constexpr size_t kNone = SIZE_MAX;

std::string path_of(const std::string& library, const std::string& folder) {
  return library.starts_with('/') || folder.empty() ? library : folder + "/" + library;
}

bool has(const std::vector<int32_t>& list, int32_t number) { return std::ranges::find(list, number) != list.end(); }

bool has_twice(std::vector<int32_t> list) {
  std::ranges::sort(list);
  return std::ranges::adjacent_find(list) != list.end();
}

std::vector<size_t> places(const std::vector<int32_t>& numbers) { return {numbers.begin(), numbers.end()}; }

}  // namespace

LibraryOperator::LibraryOperator(adapters::UserSpec spec, const std::string& folder, LibraryProcess::Limits limits)
    : DescribedOperator(std::move(spec)),
      process_(std::make_unique<LibraryProcess>(path_of(spec_.op->library, folder), limits)) {
  check_names();
  check_tensors();
  for (const LibrarySchema::Output& output : schema().outputs) check_output(output);
  describe();
}

void LibraryOperator::fail(const std::string& what) const {
  throw BadInput(fmt::format("{}: {}; kernels/own_operator.h says what a library does", process_->path(), what));
}

void LibraryOperator::check_names() {
  const LibrarySchema& is = schema();
  if (is.name != name()) {
    fail(fmt::format("is the library of the operator {}, and adapter {} names it for {}", is.name, adapter(), name()));
  }
  for (size_t i = 0; i < is.dimensions.size(); ++i) {
    const std::string& name = is.dimensions[i].name;
    if (!adapters::is_identifier(name)) {
      fail(fmt::format("has a dimension named \"{}\", which is no name of letters, digits and _", name));
    }
    const auto same = [&](const LibrarySchema::Dimension& dimension) { return dimension.name == name; };
    if (std::ranges::count_if(is.dimensions, same) > 1) fail(fmt::format("has two dimensions named {}", name));
  }
}

void LibraryOperator::check_tensors() {
  const LibrarySchema& is = schema();
  for (const LibrarySchema::Tensor& tensor : is.tensors) {
    const auto found = std::ranges::find(spec_.tensors, tensor.name, &adapters::TensorSpec::name);
    if (found == spec_.tensors.end()) {
      fail(fmt::format("has a tensor {}, which adapter {} has not", tensor.name, adapter()));
    }
    const auto number = static_cast<size_t>(found - spec_.tensors.begin());
    if (std::ranges::find(adapter_tensors_, number) != adapter_tensors_.end()) {
      fail(fmt::format("has two tensors named {}", tensor.name));
    }
    if (tensor.role < MSDA_OWN_INPUT || tensor.role > MSDA_OWN_INOUT) {
      fail(fmt::format("has {} in the role {}, which is no msda_own_role", tensor.name, tensor.role));
    }
    const bool reads = tensor.role != MSDA_OWN_OUTPUT, writes = tensor.role != MSDA_OWN_INPUT;
    if ((reads && !found->is_input) || (writes && !found->is_output)) {
      fail(fmt::format("has {} in another role than adapter {}", tensor.name, adapter()));
    }
    const bool integers = found->type == MSDA_INT32 || found->type == MSDA_INT64;
    if (found->type == kernels::kUInt8 || integers != tensor.is_integer || (integers && writes)) {
      fail(fmt::format("has {} {}, and in adapter {} it has type {}", tensor.name,
                       tensor.is_integer ? "of integers" : "of a floating-point type", adapter(),
                       kernels::name_of(found->type)));
    }
    if (tensor.dimensions.size() != found->shape.size()) {
      fail(fmt::format("has {} of {} dimensions, and in adapter {} it has {}", tensor.name, tensor.dimensions.size(),
                       adapter(), found->shape.size()));
    }
    for (const int32_t dimension : tensor.dimensions) {
      if (dimension < (writes ? 0 : -1) || dimension >= static_cast<int32_t>(is.dimensions.size())) {
        fail(fmt::format("has an axis of {} of the dimension {}; there are {}", tensor.name, dimension,
                         is.dimensions.size()));
      }
    }
    const bool has_output = std::ranges::any_of(
        is.outputs, [&](const auto& output) { return output.tensor == &tensor - is.tensors.data(); });
    if (writes && !has_output) fail(fmt::format("has no output for {}, whose role is output", tensor.name));
    adapter_tensors_.push_back(number);
  }
}

void LibraryOperator::check_output(const LibrarySchema::Output& output) {
  const LibrarySchema& is = schema();
  const auto count = static_cast<int32_t>(is.dimensions.size());
  if (output.tensor < 0 || output.tensor >= static_cast<int32_t>(is.tensors.size())) {
    fail(fmt::format("has an output that is the tensor number {}; there are {}", output.tensor, is.tensors.size()));
  }
  const LibrarySchema::Tensor& tensor = is.tensors[static_cast<size_t>(output.tensor)];
  const auto same = [&](const LibrarySchema::Output& candidate) { return candidate.tensor == output.tensor; };
  if (tensor.role == MSDA_OWN_INPUT) fail(fmt::format("has an output {}, whose role is input", tensor.name));
  if (std::ranges::count_if(is.outputs, same) > 1) fail(fmt::format("has two outputs that are {}", tensor.name));
  if (has_twice(tensor.dimensions)) fail(fmt::format("has two axes of {} of the same dimension", tensor.name));
  for (const auto* list : {&output.over, &output.channels}) {
    const char* what = list == &output.over ? "over" : "channels";
    for (const int32_t dimension : *list) {
      if (dimension < 0 || dimension >= count) {
        fail(fmt::format("has in {} of {} the dimension {}; there are {}", what, tensor.name, dimension, count));
      }
      if (has(tensor.dimensions, dimension) == (list == &output.over)) {
        fail(fmt::format("has in {} of {} the dimension {}, which is {} of its axes", what, tensor.name,
                         is.dimensions[static_cast<size_t>(dimension)].name, list == &output.over ? "one" : "none"));
      }
    }
    if (has_twice(*list)) fail(fmt::format("has a dimension twice in {} of {}", what, tensor.name));
  }
  if (output.addends < 1 || output.addends > MSDA_OWN_MOST_ADDENDS) {
    fail(fmt::format("has {} addends of {} for each place; there must be 1 to {}", output.addends, tensor.name,
                     MSDA_OWN_MOST_ADDENDS));
  }
  if (output.coordinates < 0 || output.coordinates > MSDA_OWN_MOST_COORDINATES) {
    fail(fmt::format("has {} coordinates of {}; there must be 0 to {}", output.coordinates, tensor.name,
                     MSDA_OWN_MOST_COORDINATES));
  }
  if (output.coordinates > 0 && !is.has_coordinates) fail("has coordinates, and the function of these is null");
}

void LibraryOperator::describe() {
  const LibrarySchema& is = schema();
  for (size_t i = 0; i < spec_.tensors.size(); ++i) {
    const auto found = std::ranges::find(adapter_tensors_, i);
    const auto number = static_cast<size_t>(found - adapter_tensors_.begin());
    if (found == adapter_tensors_.end() || is.tensors[number].role == MSDA_OWN_OUTPUT) continue;
    inputs_.push_back(i);
    schema_tensors_.push_back(number);
    axes_[i].assign(is.tensors[number].dimensions.begin(), is.tensors[number].dimensions.end());
  }
  input_of_.assign(is.tensors.size(), kNone);
  for (size_t i = 0; i < schema_tensors_.size(); ++i) input_of_[schema_tensors_[i]] = i;
  for (const LibrarySchema::Output& output : is.outputs) {
    const auto number = static_cast<size_t>(output.tensor);
    const LibrarySchema::Tensor& tensor = is.tensors[number];
    outputs_.push_back({adapter_tensors_[number], places(tensor.dimensions), places(output.over),
                        places(output.channels), output.addends, tensor.role == MSDA_OWN_INOUT});
  }
  describe_gradients();
  for (size_t i = 0; i < is.dimensions.size(); ++i) {
    const auto has_axis = [&](const LibrarySchema::Tensor& tensor) {
      return has(tensor.dimensions, static_cast<int32_t>(i));
    };
    if (std::ranges::none_of(is.tensors, has_axis)) {
      fail(fmt::format("has the dimension {}, of which no tensor has an axis", is.dimensions[i].name));
    }
    add_dimension(is.dimensions[i].name);
    const auto is_axis_of = [&](size_t tensor) { return has(is.tensors[tensor].dimensions, static_cast<int32_t>(i)); };
    if (is.dimensions[i].may_be_left_out && std::ranges::any_of(schema_tensors_, is_axis_of)) cuts_.push_back(i);
  }
}

size_t LibraryOperator::name_count() const { return spec_.scalars.size() + std::size(adapters::kExtents); }

std::shared_ptr<const OwnCall> LibraryOperator::new_call(NamedValues values, std::vector<size_t> present,
                                                         std::vector<analysis::Tensor> tensors,
                                                         const analysis::Coordinates& sizes, std::string where) const {
  return std::make_shared<BoundLibrary>(*this, std::move(values), std::move(present), std::move(tensors), sizes,
                                        std::move(where));
}

}  // namespace msda::replay
