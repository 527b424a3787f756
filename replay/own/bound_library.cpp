#include "replay/own/bound_library.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "analysis/numbers/bounded.h"
#include "kernels/walk.h"
#include "replay/base/errors.h"
#include "replay/own/rounded.h"

namespace msda::replay {

using analysis::Bounded;
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

BoundLibrary::BoundLibrary(const LibraryOperator& op, NamedValues values, std::vector<size_t> present,
                           std::vector<Tensor> tensors, const analysis::Coordinates& sizes, std::string where,
                           const BoundLibrary* given)
    : OwnCall(op, std::move(values), std::move(present), std::move(tensors), sizes, std::move(where)), op_(op) {
  take_sizes();
  if (given == nullptr) check_outputs(sizes, "dimensions");
  bool same = given != nullptr && given->sizes_ == sizes_;
  for (size_t i = 0; same && i < inputs_.size(); ++i) {
    const Tensor &mine = inputs_[i].tensor, &theirs = given->inputs_[i].tensor;
    same = mine.shape == theirs.shape && mine.dtype == theirs.dtype &&
           (kernels::is_float(mine.dtype) || mine.data == theirs.data);
  }
  opened_ = same ? given->opened_ : std::make_shared<Opened>();
}

void BoundLibrary::take_sizes() {
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

const LibraryCall& BoundLibrary::call() const {
  if (const LibraryCall* ready = opened_->ready) return *ready;
  const std::lock_guard lock(opened_->mutex);
  if (!opened_->call) {
    std::vector<analysis::Index> shapes;
    for (const analysis::Gradient gradient : gradients()) shapes.push_back(shape_of(gradient));
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
    const auto exact = analysis::Precision::of(MSDA_FLOAT64);
    made.table = opened.new_table(output, [&](int64_t flat, std::vector<int32_t>& cells) {
      for (const analysis::Axis& axis : axes({gradients()[output], flat, {}})) {
        cells.push_back(landings(axis, exact).front().low);
      }
    });
  } else {
    made.table = opened.table(output);
  }
  made.ready = made.table.get();
  return *made.table;
}

analysis::Axes BoundLibrary::axes(const analysis::ElementId& id) const {
  const size_t output = id.gradient.place();
  analysis::Axes all;
  if (!has_coordinates(output)) return all;
  for (const LibraryCoordinate& coordinate : call().coordinates(output, id.flat)) {
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

void BoundLibrary::terms_in(size_t output, int64_t flat, const OwnCells& cells, const analysis::Precision&,
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
    for (const OwnCell& cell : cells) numbers.push_back(cell.cell);
    others = call().terms_in(output, flat, numbers, nullptr);
    left = *others;
  }
  analysis::Term term;
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

void BoundLibrary::reads(size_t output, int64_t flat, const OwnCells& cells, const VisitRead& visit) const {
  OwnCall::reads(output, flat, cells, visit);
  if (!has_coordinates(output)) return;
  for (const LibraryCoordinate& coordinate : call().coordinates(output, flat)) {
    visit(analysis::Term::Input{coordinate.input, coordinate.place});
  }
}

int64_t BoundLibrary::term_count(size_t output) const {
  const auto has_data = [](const analysis::NamedTensor& input) { return static_cast<bool>(input.tensor); };
  return std::ranges::all_of(inputs_, has_data) ? table(output).terms : 0;
}

std::shared_ptr<const analysis::Call> BoundLibrary::with_tensors(std::vector<Tensor> tensors) const {
  return std::make_shared<BoundLibrary>(op_, values_, present_, std::move(tensors), sizes_, where_, this);
}

void BoundLibrary::check() const {
  for (const analysis::Gradient gradient : gradients()) {
    const size_t output = gradient.place();
    const TermTable& known = table(output);
    const auto fail = [&](int64_t flat, const std::string& fault) {
      const analysis::Index at = kernels::index_of(shape_of(gradient), flat);
      throw BadInput(fmt::format("{}: {}[{}]: {}", where_, gradient.name(), fmt::join(at, ","), fault));
    };
    if (known.fault) fail(known.fault->first, known.fault->second);
    const auto elements = static_cast<int64_t>(known.begins.size()) - 1;
    for (int64_t flat = 0; has_coordinates(output) && flat < elements; ++flat) {
      const auto places = reachable_cells(output, flat);
      for (size_t i = 1; i < places.size(); ++i) {
        std::vector<int32_t> cells;
        for (const OwnCell& cell : places[i]) cells.push_back(cell.cell);
        std::string fault;
        call().terms_in(output, flat, cells, &fault);
        if (!fault.empty()) fail(flat, fault);
      }
    }
  }
}

}  // namespace msda::replay
