#include "replay/own/bound_expressions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "analysis/numbers/bounded.h"
#include "replay/base/errors.h"

namespace msda::replay {

using adapters::Expression;
using adapters::OutputSpec;
using analysis::Bounded;
using analysis::Tensor;

namespace {

// About a minute and a half of one core.
constexpr int64_t kMostPoints = int64_t{1} << 28, kLargestDomain = int64_t{1} << 26;
constexpr int64_t kMostStageElements = int64_t{1} << 24;  // of all stages together, 32 bytes each

}  // namespace

BoundExpressions::BoundExpressions(const ExpressionOperator& op, NamedValues scalars, std::vector<size_t> present,
                                   std::vector<Tensor> tensors, const analysis::Coordinates& sizes, std::string where,
                                   const BoundExpressions* given)
    : OwnCall(op, std::move(scalars), std::move(present), std::move(tensors), sizes, std::move(where)), op_(op) {
  input_of_.resize(op.spec().tensors.size(), kAbsent);
  for (size_t i = 0; i < present_.size(); ++i) input_of_[present_[i]] = i;
  take_sizes();
  if (given == nullptr) check_outputs(sizes, "indices");  // before anything is allocated by a size
  find_all(given);
}

// Finds the points of each sum, and computes the intermediate tensors: in turn, because conditions may read these.
void BoundExpressions::find_all(const BoundExpressions* given) {
  const auto& op = op_.op();
  const size_t stages = op.stages.size();
  tables_.resize(stages + op.outputs.size());
  stages_.resize(stages);
  bool same_sizes = given != nullptr && given->sizes_ == sizes_, have_integers = true, have_reals = true;
  bool same_integers = same_sizes, same_reals = same_sizes;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Tensor& tensor = inputs_[i].tensor;
    const bool is_real = kernels::is_float(tensor.dtype);
    bool &have = is_real ? have_reals : have_integers, &same = is_real ? same_reals : same_integers;
    have = have && tensor;
    same = same && tensor.data == given->inputs_[i].tensor.data;
  }
  for (size_t i = 0; i < tables_.size(); ++i) blocks_.push_back(blocks_of(sum(i)));
  for (size_t i = 0; i < tables_.size() && have_integers; ++i) {
    const bool reads_reals = std::ranges::any_of(sum(i).where, &adapters::WhereSpec::is_real);
    const bool is_known = same_integers && (same_reals || !reads_reals);
    if (reads_reals && !have_reals) continue;
    tables_[i] =
        is_known ? given->tables_[i] : find_points(*this, sum(i), analysis::Precision::of(arithmetic()), where_);
    if (!is_known) check_work(i);
    if (i < stages && have_reals) evaluate_stage(i);
  }
}

const adapters::SumSpec& BoundExpressions::sum(size_t number) const {
  const auto& stages = op_.op().stages;
  if (number < stages.size()) return stages[number];
  return op_.op().outputs[number - stages.size()];
}

std::string_view BoundExpressions::name_of_sum(size_t number) const {
  const auto& op = op_.op();
  if (number < op.stages.size()) return op.stages[number].name;
  return op_.spec().tensors[op.outputs[number - op.stages.size()].tensor].name;
}

void BoundExpressions::take_sizes() {
  for (size_t index = 0; index < op_.op().indices.size(); ++index) take_size(index);
  long double all_elements = 0;  // of stages
  for (size_t i = 0; i < op_.op().stages.size() + op_.op().outputs.size(); ++i) {
    long double domain = 1, elements = i < op_.op().stages.size() ? 1 : 0;
    for (const size_t index : sum(i).over) domain *= static_cast<long double>(sizes_[index]);
    for (const int64_t size : shape_of_sum(sum(i))) elements *= static_cast<long double>(size);
    all_elements += elements;
    if (domain > static_cast<long double>(kLargestDomain)) {
      throw BadInput(fmt::format("{}: the sum of {} goes over {:.3g} points; 2^26 can be examined at most", where_,
                                 name_of_sum(i), static_cast<double>(domain)));
    }
    if (all_elements > static_cast<long double>(kMostStageElements)) {
      throw BadInput(
          fmt::format("{}: with the stage {} there are {:.3g} elements of stages; 2^24 can be computed at most", where_,
                      name_of_sum(i), static_cast<double>(all_elements)));
    }
  }
}

void BoundExpressions::take_size(size_t index) {
  const auto& [name, expression] = op_.op().indices[index];
  if (expression) {
    const auto value = Evaluation(*this).integer(*expression);
    if (const auto* fault = std::get_if<std::string>(&value)) {
      throw BadInput(fmt::format("{}: the size of index {}: {}", where_, name, *fault));
    }
    sizes_[index] = std::get<int64_t>(value);
  } else {
    const ExpressionOperator::Extent* first_extent = nullptr;
    for (const auto& extent : op_.extents_of(index)) {
      if (!has(extent.tensor)) continue;
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

analysis::Index BoundExpressions::shape_of_sum(const adapters::SumSpec& sum) const {
  analysis::Index shape;
  for (const size_t index : sum.index) shape.push_back(sizes_[index]);
  return shape;
}

int64_t BoundExpressions::points_in(const adapters::SumSpec& sum) const {
  int64_t points = 1;
  for (const size_t index : sum.over) points *= sizes_[index];
  return points;
}

std::vector<int64_t> BoundExpressions::blocks_of(const adapters::SumSpec& sum) const {
  std::vector<int64_t> blocks;
  for (const auto& [condition, is_real] : sum.where) {
    int64_t block = 1;
    for (size_t i = sum.over.size(); i-- > 0; block *= sizes_[sum.over[i]]) {
      const size_t name = name_of_index(sum.over[i]);
      if (condition.left().names(name) || condition.right().names(name)) break;
    }
    blocks.push_back(block);
  }
  return blocks;
}

int64_t BoundExpressions::visits_of(size_t number) const {
  const size_t stages = op_.op().stages.size();
  const OutputSpec* output = number < stages ? nullptr : &op_.op().outputs[number - stages];
  long double elements = 1;
  for (const int64_t size : shape_of_sum(sum(number))) elements *= static_cast<long double>(size);
  const auto addends = static_cast<long double>(output == nullptr ? 1 : output->addends.size());
  const auto starts = elements * static_cast<long double>(output == nullptr ? 0 : output->start.size());
  long double points = elements * static_cast<long double>(points_in(sum(number)));
  if (const PointTable* table = tables_[number].get()) {
    points = elements / static_cast<long double>(std::max<int64_t>(table->keys(), 1)) *
             static_cast<long double>(table->points.size());
  }
  return static_cast<int64_t>(std::min(points * addends + starts, 0x1p62L));
}

void BoundExpressions::check_work(size_t number) const {
  const int64_t points = visits_of(number);
  if (points <= kMostPoints) return;
  throw BadInput(
      fmt::format("{}: {} has {:.3g} addends to look at; 2^28 can be examined at most. A condition such as "
                  "\"segment[r] == s\" or \"abs(x[r] - i) < 1\", of an index of the output alone, finds an element's "
                  "addends without trying all",
                  where_, name_of_sum(number), static_cast<double>(points)));
}

void BoundExpressions::set_point(const adapters::SumSpec& sum, int64_t point, Evaluation& evaluation) const {
  for (size_t i = sum.over.size(); i-- > 0; point /= sizes_[sum.over[i]]) {
    evaluation.set(name_of_index(sum.over[i]), point % sizes_[sum.over[i]]);
  }
}

analysis::Coordinate BoundExpressions::coordinate(const analysis::Axis& axis,
                                                  const analysis::Precision& precision) const {
  Evaluation evaluation(*this);
  const auto value = evaluation.bounded(set_coordinate(axis, evaluation), precision);
  const auto* known = std::get_if<Bounded>(&value);
  return known != nullptr ? analysis::Coordinate{known->value(), known->error()} : analysis::Coordinate{NAN, INFINITY};
}

double BoundExpressions::computed(const analysis::Axis& axis, msda_dtype type) const {
  Evaluation evaluation(*this);
  const auto value = evaluation.computed(set_coordinate(axis, evaluation), type);
  const auto* known = std::get_if<double>(&value);
  return known != nullptr ? *known : NAN;
}

const Expression& BoundExpressions::set_coordinate(const analysis::Axis& axis, Evaluation& evaluation) const {
  const auto number = static_cast<size_t>(axis.number);
  const OutputSpec& output = op_.op().outputs[number / adapters::kMostCoordinates];
  set_element(output, axis.flat, evaluation);
  const size_t location = name_of_index(op_.op().indices.size());
  evaluation.set_real(location, axis.location);
  evaluation.set_real(location + 1, axis.size);
  return output.coordinates[number % adapters::kMostCoordinates].value;
}

std::shared_ptr<const analysis::Call> BoundExpressions::with_tensors(std::vector<Tensor> tensors) const {
  return std::make_shared<BoundExpressions>(op_, values_, present_, std::move(tensors), sizes_, where_, this);
}

}  // namespace msda::replay
