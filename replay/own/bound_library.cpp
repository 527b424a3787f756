#include "replay/own/bound_library.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "analysis/numbers/bounded.h"
#include "analysis/operators/own/call.h"
#include "kernels/walk.h"
#include "replay/base/errors.h"
#include "replay/own/looked_at.h"
#include "replay/own/rounded.h"

namespace msda::replay {

using analysis::Bounded;
using analysis::OwnCells;
using analysis::Tensor;

namespace {

// Returns a coordinate, step by step, in numbers that make() makes.
template <class Make>
auto coordinate_in(const std::vector<msda_own_step>& steps, double location, const Make& make) {
  auto value = make(location);
  for (const msda_own_step& step : steps) {
    const auto operand = make(step.operand);
    switch (step.operation) {
      case MSDA_OWN_ADD:
        value = value + operand;
        break;
      case MSDA_OWN_SUBTRACT:
        value = value - operand;
        break;
      case MSDA_OWN_MULTIPLY:
        value = value * operand;
        break;
      default:
        value = value / operand;
    }
  }
  return value;
}

double factor_of(uint8_t which, double fraction) {
  if (which == MSDA_OWN_ONE) return 1;
  return which == MSDA_OWN_FRACTION ? fraction : 1 - fraction;
}

}  // namespace

BoundLibrary::BoundLibrary(const LibraryOperator& op, NamedValues values, std::vector<Tensor> tensors,
                           const analysis::Coordinates& sizes, std::string where, const BoundLibrary* given)
    : op_(op), values_(std::move(values)), where_(std::move(where)) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    inputs_.push_back({op.spec().tensors[op.inputs()[i]].name.c_str(), std::move(tensors[i])});
  }
  take_sizes(sizes);
  // The recorded outputs have the sizes of the inputs.
  for (size_t i = 0; given == nullptr && i < op.outputs().size(); ++i) {
    analysis::Index shape;
    for (const size_t dimension : op.dimensions_of(i)) shape.push_back(sizes[dimension]);
    if (shape == shape_of(i)) continue;
    throw BadInput(fmt::format("{}: {} has shape {}, and its dimensions the sizes {}", where_, op_.outputs()[i].name(),
                               shape, shape_of(i)));
  }
  bool same = given != nullptr && given->sizes_ == sizes_;
  for (size_t i = 0; same && i < inputs_.size(); ++i) {
    const Tensor &mine = inputs_[i].tensor, &theirs = given->inputs_[i].tensor;
    same = mine.shape == theirs.shape && mine.dtype == theirs.dtype &&
           (kernels::is_float(mine.dtype) || mine.data == theirs.data);
  }
  opened_ = same ? given->opened_ : std::make_shared<Opened>();
}

void BoundLibrary::take_sizes(const analysis::Coordinates& sizes) {
  sizes_ = sizes;
  std::vector<const analysis::NamedTensor*> sized_by(op_.dimensions().size(), nullptr);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const auto& axes = op_.schema().tensors[op_.schema_tensor(i)].dimensions;
    for (size_t axis = 0; axis < axes.size(); ++axis) {
      if (axes[axis] < 0) continue;
      const auto dimension = static_cast<size_t>(axes[axis]);
      const int64_t size = inputs_[i].tensor.shape[axis];
      if (sized_by[dimension] != nullptr && size != sizes_[dimension]) {
        throw BadInput(fmt::format("{}: dimension {} has size {} in {} and {} in {}", where_,
                                   op_.dimensions()[dimension].name(), sizes_[dimension], sized_by[dimension]->name,
                                   size, inputs_[i].name));
      }
      sizes_[dimension] = size;
      sized_by[dimension] = &inputs_[i];
    }
  }
}

analysis::Index BoundLibrary::shape_of(size_t output) const {
  analysis::Index shape;
  for (const size_t dimension : op_.dimensions_of(output)) shape.push_back(sizes_[dimension]);
  return shape;
}

std::vector<int> BoundLibrary::axes_of(std::string_view tensor) const {
  const auto& tensors = op_.schema().tensors;
  const auto found = std::ranges::find(tensors, tensor, &LibrarySchema::Tensor::name);
  if (found == tensors.end()) return {};
  return {found->dimensions.begin(), found->dimensions.end()};
}

const LibraryCall& BoundLibrary::call() const {
  if (const LibraryCall* ready = opened_->ready) return *ready;
  const std::lock_guard lock(opened_->mutex);
  if (!opened_->call) {
    std::vector<analysis::Index> shapes;
    for (size_t i = 0; i < op_.outputs().size(); ++i) shapes.push_back(shape_of(i));
    opened_->call = std::make_shared<const LibraryCall>(op_, values_, inputs_, sizes_, std::move(shapes), where_);
    opened_->ready = opened_->call.get();
  }
  return *opened_->call;
}

const TermTable& BoundLibrary::table(size_t output) const {
  Table& made = tables_[output];
  if (const TermTable* ready = made.ready) return *ready;
  const LibraryCall& opened = call();
  const std::lock_guard lock(mutex_);
  if (made.table) return *made.table;
  if (has_coordinates(output)) {
    const analysis::OwnCall on(std::shared_ptr<const OwnDefinition>(std::shared_ptr<void>(), this));
    const auto exact = analysis::Precision::of(MSDA_FLOAT64);
    made.table = opened.new_table(output, [&](int64_t flat, std::vector<int32_t>& cells) {
      for (const analysis::Axis& axis : axes(output, flat)) cells.push_back(on.landings(axis, exact).front().low);
    });
  } else {
    made.table = opened.table(output);
  }
  made.ready = made.table.get();
  return *made.table;
}

analysis::Axes BoundLibrary::axes(size_t output, int64_t flat) const {
  analysis::Axes all;
  if (!has_coordinates(output)) return all;
  for (const LibraryCoordinate& coordinate : call().coordinates(output, flat)) {
    const Tensor& locations = inputs_[coordinate.input].tensor;
    all.push_back({locations.at(coordinate.place), coordinate.size, locations.dtype, coordinate.steps});
  }
  return all;
}

analysis::Coordinate BoundLibrary::coordinate(const analysis::Axis& axis, const analysis::Precision& precision) const {
  const auto value =
      coordinate_in(call().steps(axis.number), axis.location, [&](double x) { return Bounded(x, precision); });
  return {value.value(), value.error()};
}

double BoundLibrary::computed(const analysis::Axis& axis, msda_dtype type) const {
  return coordinate_in(call().steps(axis.number), axis.location, [&](double x) { return Rounded{x, type}; }).value;
}

void BoundLibrary::terms(size_t output, int64_t flat, const OwnCells& cells, const analysis::Precision&,
                         const analysis::VisitTerm& visit) const {
  const TermTable& known = table(output);
  std::span<const uint64_t> left;
  std::shared_ptr<const std::vector<uint64_t>> others;
  const size_t coordinates = cells.size();
  bool is_known = true;
  for (size_t i = 0; i < coordinates; ++i) {
    is_known = is_known && known.cells[static_cast<size_t>(flat) * coordinates + i] == cells[i].cell;
  }
  if (is_known) {
    left = known.of(flat);
  } else {
    std::vector<int32_t> numbers;
    for (const analysis::OwnCell& cell : cells) numbers.push_back(cell.cell);
    others = call().terms_in(output, flat, numbers, nullptr);
    left = *others;
  }
  analysis::OwnTerm term;
  while (!left.empty()) {
    const words::Form form = words::form_of(left[0]);
    term.weight = std::bit_cast<double>(left[1]);
    for (size_t i = 0; i < coordinates; ++i) term.weight *= factor_of(form.fractions[i], cells[i].fraction);
    term.computed = term.weight;
    term.number = static_cast<int64_t>(left[2]);
    term.inputs.clear();
    for (size_t i = 0; i < form.inputs; ++i) {
      term.inputs.push_back({op_.input_of(form.tensors[i]), static_cast<int64_t>(left[words::kBeforeInputs + i])});
    }
    left = left.subspan(words::kBeforeInputs + form.inputs);
    visit(term);
  }
}

void BoundLibrary::reads(size_t output, int64_t flat, const OwnCells& cells, const analysis::VisitRead& visit) const {
  OwnDefinition::reads(output, flat, cells, visit);
  if (!has_coordinates(output)) return;
  for (const LibraryCoordinate& coordinate : call().coordinates(output, flat)) {
    visit(analysis::OwnTerm::Input{coordinate.input, coordinate.place});
  }
}

int64_t BoundLibrary::term_count(size_t output) const {
  const auto has_data = [](const analysis::NamedTensor& input) { return static_cast<bool>(input.tensor); };
  return std::ranges::all_of(inputs_, has_data) ? table(output).terms : 0;
}

std::string BoundLibrary::name_of_term(size_t output, int64_t number) const {
  if (number < 0) return "what it begins with";
  const LibrarySchema::Output& schema = op_.schema().outputs[output];
  int64_t place = number / schema.addends;
  std::vector<std::string> texts;
  for (size_t i = schema.over.size(); i-- > 0;) {
    const auto dimension = static_cast<size_t>(schema.over[i]);
    const int64_t size = std::max<int64_t>(sizes_[dimension], 1);
    texts.insert(texts.begin(), fmt::format("{} {}", op_.dimensions()[dimension].name(), place % size));
    place /= size;
  }
  if (schema.addends > 1 || texts.empty()) texts.push_back(fmt::format("addend {}", number % schema.addends));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::shared_ptr<const analysis::OwnDefinition> BoundLibrary::with_inputs(std::vector<Tensor> tensors) const {
  return std::make_shared<BoundLibrary>(op_, values_, std::move(tensors), sizes_, where_, this);
}

void BoundLibrary::check() const {
  for (size_t output = 0; output < op_.outputs().size(); ++output) {
    const TermTable& known = table(output);
    const auto fail = [&](int64_t flat, const std::string& fault) {
      const analysis::Index at = kernels::index_of(shape_of(output), flat);
      throw BadInput(fmt::format("{}: {}[{}]: {}", where_, op_.outputs()[output].name(), fmt::join(at, ","), fault));
    };
    if (known.fault) fail(known.fault->first, known.fault->second);
    const auto elements = static_cast<int64_t>(known.begins.size()) - 1;
    for (int64_t flat = 0; has_coordinates(output) && flat < elements; ++flat) {
      const auto places = reachable_cells(*this, output, flat);
      for (size_t i = 1; i < places.size(); ++i) {
        std::vector<int32_t> cells;
        for (const analysis::OwnCell& cell : places[i]) cells.push_back(cell.cell);
        std::string fault;
        call().terms_in(output, flat, cells, &fault);
        if (!fault.empty()) fail(flat, fault);
      }
    }
  }
}

}  // namespace msda::replay
