#include "replay/own/bound_expressions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "analysis/numbers/bounded.h"
#include "replay/base/errors.h"
#include "replay/own/rounded.h"

namespace msda::replay {

using adapters::Expression;
using adapters::OutputSpec;
using adapters::Refusal;
using analysis::Bounded;
using analysis::Tensor;

namespace {

// About a minute and a half of one core.
constexpr int64_t kMostPoints = int64_t{1} << 28, kLargestDomain = int64_t{1} << 26;

// Returns the value of a coordinate's expression.
template <class Real, class Make>
Real coordinate_in(const ExpressionOperator& op, const NamedValues& scalars, const analysis::Axis& axis,
                   const Make& make) {
  const auto& output = op.op().outputs[static_cast<size_t>(axis.number) / adapters::kMostCoordinates];
  const auto& coordinate = output.coordinates[static_cast<size_t>(axis.number) % adapters::kMostCoordinates];
  const size_t location = op.names().index(op.op().indices.size());
  const auto leaf = [&](size_t name) {
    return make(name == location ? axis.location : name == location + 1 ? axis.size : scalars.reals[name]);
  };
  Real result{};
  coordinate.value.real(
      result, [](size_t) { return Expression::Value(int64_t{0}); }, {}, make, leaf,
      [&](size_t, std::span<const int64_t>) { return make(0); });
  return result;
}

}  // namespace

BoundExpressions::BoundExpressions(const ExpressionOperator& op, NamedValues scalars, std::vector<Tensor> tensors,
                                   const analysis::Coordinates& sizes, std::string where, const BoundExpressions* given)
    : op_(op), scalars_(std::move(scalars)), where_(std::move(where)) {
  input_of_.resize(op.spec().tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    input_of_[op.inputs()[i]] = i;
    inputs_.push_back({op.spec().tensors[op.inputs()[i]].name.c_str(), std::move(tensors[i])});
  }
  take_sizes(sizes);
  if (given == nullptr) check_outputs(sizes);  // before anything is allocated by a size
  bool same = given != nullptr && given->sizes_ == sizes_, have_data = true;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Tensor& tensor = inputs_[i].tensor;
    const bool integer = tensor.dtype == MSDA_INT32 || tensor.dtype == MSDA_INT64;
    if (integer && !tensor) have_data = false;
    if (integer && same && tensor.data != given->inputs_[i].tensor.data) same = false;
  }
  joins_.resize(op.op().outputs.size());
  for (size_t output = 0; have_data && output < joins_.size(); ++output) {
    if (same) {
      joins_[output] = given->joins_[output];
    } else {
      join(output);
    }
  }
  if (have_data && !same) check_work();
}

void BoundExpressions::take_sizes(const analysis::Coordinates& sizes) {
  sizes_ = sizes;
  for (size_t index = 0; index < op_.op().indices.size(); ++index) {
    const auto& [name, expression] = op_.op().indices[index];
    if (expression) {
      const auto value = expression->value([&](size_t scalar) -> Expression::Value {
        const auto& integer = scalars_.integers[scalar];
        if (!integer) return Refusal{"a number that it names was not recorded, or is no integer"};
        return *integer;
      });
      if (const auto* refusal = std::get_if<Refusal>(&value)) {
        throw BadInput(fmt::format("{}: the size of index {}: {}", where_, name, refusal->reason));
      }
      sizes_[index] = std::get<int64_t>(value);
    } else {
      const ExpressionOperator::Extent* first_extent = nullptr;
      for (const auto& extent : op_.extents_of(index)) {
        const int64_t size = inputs_[input_of_[extent.tensor]].tensor.shape[extent.dimension];
        if (first_extent != nullptr && size != sizes_[index]) {
          throw BadInput(fmt::format(
              "{}: index {} is one of {} in dimension {} of {}, and of {} in dimension {} of {}; "
              "give its size in \"sizes\" if it does not go over all",
              where_, name, sizes_[index], first_extent->dimension, op_.spec().tensors[first_extent->tensor].name, size,
              extent.dimension, op_.spec().tensors[extent.tensor].name));
        }
        sizes_[index] = size;
        first_extent = &extent;
      }
    }
    if (sizes_[index] < 0 || sizes_[index] > int64_t{1} << 40) {
      throw BadInput(fmt::format("{}: index {} has size {}; give it in \"sizes\"", where_, name, sizes_[index]));
    }
  }
  for (const OutputSpec& output : op_.op().outputs) {
    long double domain = 1;
    for (const size_t index : output.over) domain *= static_cast<long double>(sizes_[index]);
    if (domain <= static_cast<long double>(kLargestDomain)) continue;
    throw BadInput(fmt::format("{}: the sum of {} goes over {:.3g} points; 2^26 can be examined at most", where_,
                               op_.spec().tensors[output.tensor].name, static_cast<double>(domain)));
  }
}

void BoundExpressions::check_outputs(const analysis::Coordinates& recorded) const {
  for (size_t i = 0; i < op_.op().outputs.size(); ++i) {
    analysis::Index shape;
    for (const size_t index : op_.op().outputs[i].index) shape.push_back(recorded[index]);
    if (shape == shape_of(i)) continue;
    throw BadInput(fmt::format("{}: {} has shape {}, and its indices the sizes {}", where_, op_.gradients()[i].name(),
                               shape, shape_of(i)));
  }
}

analysis::Index BoundExpressions::shape_of(size_t output) const {
  analysis::Index shape;
  for (const size_t index : op_.op().outputs[output].index) shape.push_back(sizes_[index]);
  return shape;
}

int64_t BoundExpressions::domain_of(size_t output) const {
  int64_t points = 1;
  for (const size_t index : op_.op().outputs[output].over) points *= sizes_[index];
  return points;
}

int64_t BoundExpressions::points_of(size_t output) const {
  const OutputSpec& spec = op_.op().outputs[output];
  long double elements = 1;
  for (const int64_t size : shape_of(output)) elements *= static_cast<long double>(size);
  const Join* joined = joins_[output].get();
  const auto sums = static_cast<long double>(spec.addends.size());
  const auto starts = elements * static_cast<long double>(spec.start.size());
  long double points = elements * static_cast<long double>(domain_of(output));
  if (joined != nullptr) {
    const auto keys = static_cast<long double>(std::max<int64_t>(sizes_[spec.index[joined->axis]], 1));
    points = elements / keys * static_cast<long double>(joined->points.size());
  }
  return static_cast<int64_t>(std::min(points * sums + starts, 0x1p62L));
}

void BoundExpressions::check_work() const {
  for (size_t output = 0; output < joins_.size(); ++output) {
    const int64_t points = points_of(output);
    if (points <= kMostPoints) continue;
    throw BadInput(fmt::format(
        "{}: {} has {:.3g} addends to look at; 2^28 can be examined at most. A condition such as "
        "\"segment[r] == s\", of an index of the output alone, finds an element's addends without trying all",
        where_, op_.spec().tensors[op_.op().outputs[output].tensor].name, static_cast<double>(points)));
  }
}

// Finds the first condition that says which element each point belongs to, and sorts the points by it.
void BoundExpressions::join(size_t output) {
  const OutputSpec& spec = op_.op().outputs[output];
  const auto is_of_point = [&](size_t name) {
    const auto is_over = [&](size_t index) { return op_.names().index(index) == name; };
    return name < op_.names().first || std::ranges::any_of(spec.over, is_over);
  };
  const auto key_of = [&](const Expression& side) {
    bool alone = std::ranges::all_of(side.loose_names(), is_of_point);
    for (const auto& reference : side.references()) {
      for (const auto& plain : reference.plain) alone = alone && (!plain || is_of_point(*plain));
    }
    return alone;
  };
  for (size_t condition = 0; condition < spec.where.size(); ++condition) {
    const auto &left = spec.where[condition].left(), &right = spec.where[condition].right();
    if (!spec.where[condition].is_equality()) continue;
    for (const auto& [named, key] : {std::pair{&left, &right}, {&right, &left}}) {
      const auto name = named->plain_name();
      const auto axis = std::ranges::find_if(spec.index, [&](size_t i) { return name == op_.names().index(i); });
      if (!name || axis == spec.index.end() || !key_of(*key)) continue;
      joins_[output] = sorted_by(output, *key, condition, static_cast<size_t>(axis - spec.index.begin()));
      return;
    }
  }
}

std::shared_ptr<const BoundExpressions::Join> BoundExpressions::sorted_by(size_t output, const Expression& key,
                                                                          size_t condition, size_t axis) const {
  auto found = std::make_shared<Join>();
  found->condition = condition;
  found->axis = axis;
  const int64_t keys = shape_of(output)[axis], points = domain_of(output);
  NamedValues values = scalars_;
  const Expression::Values named = [&](size_t number) -> Expression::Value {
    if (!values.integers[number]) return Refusal{"a number that it names was not recorded, or is no integer"};
    return *values.integers[number];
  };
  const Expression::Elements elements = [&](size_t tensor, std::span<const int64_t> at) { return element(tensor, at); };
  // One that is no element's belongs nowhere.
  const auto visit_all = [&](const auto& visit) {
    for (int64_t point = 0; point < points; ++point) {
      set_point(output, point, values);
      const auto value = key.value(named, elements);
      const auto* number = std::get_if<int64_t>(&value);
      if (number == nullptr) throw BadInput(fmt::format("{}: {}", where_, std::get<Refusal>(value).reason));
      if (*number >= 0 && *number < keys) visit(static_cast<size_t>(*number), point);
    }
  };
  found->begin.assign(static_cast<size_t>(keys) + 1, 0);
  visit_all([&](size_t at, int64_t) { ++found->begin[at + 1]; });
  for (size_t i = 1; i < found->begin.size(); ++i) found->begin[i] += found->begin[i - 1];
  found->points.resize(static_cast<size_t>(found->begin.back()));
  std::vector<int64_t> next(found->begin.begin(), found->begin.end() - 1);
  visit_all(
      [&](size_t at, int64_t point) { found->points[static_cast<size_t>(next[at]++)] = static_cast<uint32_t>(point); });
  return found;
}

void BoundExpressions::set_point(size_t output, int64_t point, NamedValues& values) const {
  const auto& over = op_.op().outputs[output].over;
  for (size_t i = over.size(); i-- > 0; point /= sizes_[over[i]]) {
    values.set(op_.names().index(over[i]), point % sizes_[over[i]]);
  }
}

std::vector<int> BoundExpressions::axes_of(std::string_view tensor) const {
  const auto& tensors = op_.spec().tensors;
  const auto found = std::ranges::find(tensors, tensor, &adapters::TensorSpec::name);
  const auto number = static_cast<size_t>(found - tensors.begin());
  std::vector<int> axes;
  if (std::ranges::find(op_.inputs(), number) != op_.inputs().end()) {
    for (const auto& index : op_.axes_of(number)) axes.push_back(index ? static_cast<int>(*index) : -1);
    return axes;
  }
  for (const OutputSpec& output : op_.op().outputs) {
    if (output.tensor != number) continue;
    for (const size_t index : output.index) axes.push_back(static_cast<int>(index));
  }
  return axes;
}

analysis::Coordinate BoundExpressions::coordinate(const analysis::Axis& axis,
                                                  const analysis::Precision& precision) const {
  const auto value = coordinate_in<Bounded>(op_, scalars_, axis, [&](double x) { return Bounded(x, precision); });
  return {value.value(), value.error()};
}

double BoundExpressions::computed(const analysis::Axis& axis, msda_dtype type) const {
  return coordinate_in<Rounded>(op_, scalars_, axis, [&](double x) { return Rounded{x, type}; }).value;
}

std::string BoundExpressions::name_of_term(size_t output, int64_t number) const {
  const OutputSpec& spec = op_.op().outputs[output];
  if (number < 0) return "what it begins with";
  const auto addends = static_cast<int64_t>(spec.addends.size());
  NamedValues values = scalars_;
  set_point(output, number / addends, values);
  std::vector<std::string> texts;
  for (const size_t index : spec.over) {
    texts.push_back(fmt::format("{} {}", op_.op().indices[index].name, *values.integers[op_.names().index(index)]));
  }
  if (addends > 1 || texts.empty()) texts.push_back(fmt::format("addend {}", number % addends));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::shared_ptr<const analysis::OwnDefinition> BoundExpressions::with_inputs(std::vector<Tensor> tensors) const {
  return std::make_shared<BoundExpressions>(op_, scalars_, std::move(tensors), sizes_, where_, this);
}

}  // namespace msda::replay
