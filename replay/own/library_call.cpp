#include "replay/own/library_call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <cmath>

#include "replay/base/errors.h"

namespace msda::replay {
namespace {

constexpr int64_t kAtOnce = 256;  // elements in a request, as kernels/own_operator.h promises
// Answers for other cells are forgotten beyond this: simulations may bring an element into many.
constexpr uint64_t kMostOtherWords = uint64_t{1} << 24;

std::vector<int64_t> integers_of(const analysis::Tensor& tensor) {
  const auto count = static_cast<size_t>(tensor.elements());
  if (tensor.dtype == MSDA_INT32) {
    const auto* numbers = static_cast<const int32_t*>(tensor.data);
    return {numbers, numbers + count};
  }
  const auto* numbers = static_cast<const int64_t*>(tensor.data);
  return {numbers, numbers + count};
}

std::vector<LibraryProcess::Value> named(const adapters::UserSpec& spec, const NamedValues& values) {
  std::vector<LibraryProcess::Value> all;
  for (size_t i = 0; i < spec.scalars.size(); ++i) {
    if (spec.scalars[i].type == adapters::ScalarType::kPointer) continue;
    all.push_back({spec.scalars[i].name, values.integers[i], values.reals[i]});
  }
  for (size_t i = 0; i < std::size(adapters::kExtents); ++i) {
    const size_t at = spec.scalars.size() + i;
    if (values.integers[at]) all.push_back({adapters::kExtents[i], values.integers[at], values.reals[at]});
  }
  return all;
}

}  // namespace

LibraryCall::LibraryCall(const LibraryOperator& op, const NamedValues& values,
                         std::span<const analysis::NamedTensor> tensors, const analysis::Coordinates& sizes,
                         std::vector<analysis::Index> outputs, std::string where)
    : op_(op),
      where_(std::move(where)),
      outputs_(std::move(outputs)),
      coordinates_(outputs_.size()),
      tables_(outputs_.size()) {
  const LibrarySchema& is = op.schema();
  LibraryProcess::NewCall call{{sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(is.dimensions.size())},
                               std::vector<std::vector<int64_t>>(is.tensors.size()),
                               std::vector<std::vector<int64_t>>(is.tensors.size()),
                               named(op.spec(), values)};
  for (size_t i = 0; i < outputs_.size(); ++i) call.shapes[static_cast<size_t>(is.outputs[i].tensor)] = outputs_[i];
  for (size_t i = 0; i < tensors.size(); ++i) {
    const analysis::Tensor& tensor = tensors[i].tensor;
    call.shapes[op.schema_tensor(i)] = tensor.shape;
    if (!kernels::is_float(tensor.dtype)) call.numbers[op.schema_tensor(i)] = integers_of(tensor);
    input_elements_.push_back(kernels::is_float(tensor.dtype) ? tensor.elements() : 0);
  }
  auto opened = op.process().open(call);
  if (const auto* fault = std::get_if<std::string>(&opened)) throw BadInput(fmt::format("{}: {}", where_, *fault));
  number_ = std::get<int64_t>(opened);
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (is.outputs[i].coordinates > 0) read_coordinates(i);
  }
}

LibraryCall::~LibraryCall() {
  if (number_) op_.process().close(*number_);
}

int LibraryCall::number_of(std::vector<msda_own_step> steps) {
  std::vector<std::pair<int32_t, double>> key;
  for (const msda_own_step& step : steps) key.emplace_back(step.operation, step.operand);
  const auto [known, is_new] = numbers_of_steps_.try_emplace(std::move(key), static_cast<int>(steps_.size()));
  if (is_new) steps_.push_back(std::move(steps));
  return known->second;
}

// Reads the coordinates of all elements. The library has checked nothing that memory safety depends on, so it is
// checked here.
void LibraryCall::read_coordinates(size_t output) {
  LibraryProcess& process = op_.process();
  const analysis::Tensor shape{nullptr, MSDA_FLOAT32, outputs_[output]};
  const int64_t elements = shape.elements();
  const int32_t each = op_.schema().outputs[output].coordinates;
  for (int64_t first = 0; first < elements; first += kAtOnce) {
    const int64_t count = std::min(kAtOnce, elements - first);
    const auto answer = process.coordinates(*number_, output, first, count);
    if (!answer.fault.empty()) {
      throw BadInput(fmt::format("{}: {}[{}]: {}", where_, op_.gradients()[output].name(),
                                 fmt::join(shape.index_of(answer.element), ","), answer.fault));
    }
    std::span<const uint64_t> left = answer.words;
    for (int64_t i = 0; i < count * each; ++i) {
      if (left.size() < words::kBeforeSteps) process.refuse_answer();
      const uint64_t tensor = left[0], place = left[1], size = left[2], steps = left[3];
      left = left.subspan(words::kBeforeSteps);
      const size_t input = tensor < op_.schema().tensors.size() ? op_.input_of(tensor) : SIZE_MAX;
      if (input >= input_elements_.size() || place >= static_cast<uint64_t>(input_elements_[input]) || size < 1 ||
          size > uint64_t{1} << 30 || steps > MSDA_OWN_MOST_STEPS || left.size() < 2 * steps) {
        process.refuse_answer();
      }
      std::vector<msda_own_step> read;
      for (size_t step = 0; step < steps; ++step) {
        read.push_back({static_cast<int32_t>(left[2 * step]), std::bit_cast<double>(left[2 * step + 1])});
        if (left[2 * step] > MSDA_OWN_DIVIDE || !std::isfinite(read.back().operand)) process.refuse_answer();
      }
      left = left.subspan(2 * steps);
      coordinates_[output].push_back(
          {input, static_cast<int64_t>(place), static_cast<int32_t>(size), number_of(std::move(read))});
    }
    if (!left.empty()) process.refuse_answer();
  }
}

std::span<const LibraryCoordinate> LibraryCall::coordinates(size_t output, int64_t flat) const {
  const auto each = static_cast<size_t>(op_.schema().outputs[output].coordinates);
  return std::span(coordinates_[output]).subspan(static_cast<size_t>(flat) * each, each);
}

// Takes the terms of so many elements over, checked again: they name places in tensors.
void LibraryCall::append(size_t output, LibraryProcess::Answer answer, int64_t elements, TermTable& table) const {
  LibraryProcess& process = op_.process();
  const auto coordinates = static_cast<size_t>(op_.schema().outputs[output].coordinates);
  std::span<const uint64_t> left = answer.words;
  for (int64_t element = 0; element < elements; ++element) {
    for (;;) {
      if (left.empty()) process.refuse_answer();
      if (left[0] == words::kEndOfElement) break;
      const words::Form form = words::form_of(left[0]);
      const size_t length = words::kBeforeInputs + form.inputs;
      if (form.inputs > MSDA_OWN_MOST_INPUTS || left.size() < length ||
          !std::isfinite(std::bit_cast<double>(left[1]))) {
        process.refuse_answer();
      }
      for (size_t i = 0; i < std::size(form.fractions); ++i) {
        if (form.fractions[i] > (i < coordinates ? MSDA_OWN_REST : MSDA_OWN_ONE)) process.refuse_answer();
      }
      for (size_t i = 0; i < form.inputs; ++i) {
        const size_t tensor = form.tensors[i];
        const size_t input = tensor < op_.schema().tensors.size() ? op_.input_of(tensor) : SIZE_MAX;
        const uint64_t place = left[words::kBeforeInputs + i];
        if (input >= input_elements_.size() || place >= static_cast<uint64_t>(input_elements_[input])) {
          process.refuse_answer();
        }
      }
      table.words.insert(table.words.end(), left.begin(), left.begin() + static_cast<std::ptrdiff_t>(length));
      ++table.terms;
      left = left.subspan(length);
    }
    left = left.subspan(1);
    table.begins.push_back(table.words.size());
  }
  if (!left.empty()) process.refuse_answer();
}

std::shared_ptr<const TermTable> LibraryCall::new_table(size_t output, const CellsOf& cells_of) const {
  const int64_t elements = kernels::elements_of(outputs_[output]);
  auto table = std::make_shared<TermTable>();
  table->begins.push_back(0);
  for (int64_t first = 0; first < elements; first += kAtOnce) {
    const int64_t count = std::min(kAtOnce, elements - first);
    const size_t from = table->cells.size();
    for (int64_t i = 0; i < count; ++i) cells_of(first + i, table->cells);
    auto answer = op_.process().addends(*number_, output, first, count, std::span(table->cells).subspan(from));
    if (!answer.fault.empty() && !table->fault) table->fault = {answer.element, answer.fault};
    append(output, std::move(answer), count, *table);
    if (table->terms > MSDA_OWN_MOST_ADDENDS) {
      throw BadInput(fmt::format("{}: {} has more than {} addends, the most that are looked at", where_,
                                 op_.gradients()[output].name(), MSDA_OWN_MOST_ADDENDS));
    }
  }
  return table;
}

std::shared_ptr<const TermTable> LibraryCall::table(size_t output) const {
  const std::lock_guard lock(mutex_);
  if (!tables_[output]) tables_[output] = new_table(output, [](int64_t, std::vector<int32_t>&) {});
  return tables_[output];
}

std::shared_ptr<const std::vector<uint64_t>> LibraryCall::terms_in(size_t output, int64_t flat,
                                                                   std::span<const int32_t> cells,
                                                                   std::string* fault) const {
  std::vector<int64_t> key{static_cast<int64_t>(output), flat};
  key.insert(key.end(), cells.begin(), cells.end());
  const std::lock_guard lock(mutex_);
  auto& known = other_cells_[key];
  if (!known) {
    auto answer = op_.process().addends(*number_, output, flat, 1, cells);
    auto found = std::make_shared<OtherCells>();
    found->fault = answer.fault;
    TermTable table;
    append(output, std::move(answer), 1, table);
    found->words = std::move(table.words);
    other_words_ += found->words.size() + 16;
    known = found;
  }
  const auto result = known;
  if (other_words_ > kMostOtherWords) {
    other_cells_.clear();
    other_words_ = 0;
  }
  if (fault != nullptr) *fault = result->fault;
  return {result, &result->words};
}

}  // namespace msda::replay
