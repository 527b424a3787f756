#include "replay/own/library_answers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/walk.h"
#include "recorder/process/fenced_process.h"

namespace msda::replay {
namespace {

constexpr const char* kRefused = "the addend was refused";
constexpr size_t kPiece = 1 << 17;  // words sent at a time

}  // namespace

std::string shown(const char* text, size_t most) {
  std::string copy(text, strnlen(text, most));
  for (char& c : copy) {
    if (c < ' ' || c > '~') c = '?';
  }
  return copy;
}

OpenedCall::OpenedCall(const msda_own_operator_description& description, std::vector<int64_t> sizes,
                       std::vector<std::vector<int64_t>> shapes, std::vector<LibraryProcess::Value> values)
    : of_(description),
      sizes_(std::move(sizes)),
      shapes_(std::move(shapes)),
      numbers_(shapes_.size()),
      given_(std::move(values)) {}

std::string OpenedCall::open() {
  for (size_t i = 0; i < shapes_.size(); ++i) {
    // Not null where an integer tensor is empty, so that a library need not ask.
    static constexpr int64_t kNone = 0;
    const bool integers = of_.tensors[i].is_integer != 0 && of_.tensors[i].role != MSDA_OWN_OUTPUT;
    const int64_t* numbers = numbers_[i].empty() ? &kNone : numbers_[i].data();
    data_.push_back({shapes_[i].data(), integers ? numbers : nullptr});
  }
  for (const LibraryProcess::Value& value : given_) {
    values_.push_back({value.name.c_str(), value.integer.has_value(), value.integer.value_or(0), value.real});
  }
  call_ = {sizes_.data(), data_.data(), static_cast<int32_t>(values_.size()), values_.data()};
  if (of_.open == nullptr) return "";
  const char* fault = of_.open(&call_, &state_);
  return fault == nullptr ? "" : shown(fault, 200);
}

void OpenedCall::close() {
  if (of_.close != nullptr) of_.close(state_);
}

std::string OpenedCall::find(const msda_own_element& element, uint64_t& place) const {
  if (element.tensor < 0 || element.tensor >= of_.tensor_count) {
    return fmt::format("reads the tensor number {}; there are {}", element.tensor, of_.tensor_count);
  }
  const msda_own_tensor& tensor = of_.tensors[element.tensor];
  if (tensor.role == MSDA_OWN_OUTPUT || tensor.is_integer != 0) {
    return fmt::format("reads {}, which is no input of floating-point type", shown(tensor.name, 64));
  }
  const std::vector<int64_t>& shape = shapes_[static_cast<size_t>(element.tensor)];
  place = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (element.index[i] < 0 || element.index[i] >= shape[i]) {
      return fmt::format("reads {}[{}], and its shape is {}", shown(tensor.name, 64),
                         fmt::join(element.index, element.index + shape.size(), ","), shape);
    }
    place = place * static_cast<uint64_t>(shape[i]) + static_cast<uint64_t>(element.index[i]);
  }
  return "";
}

Answers::Answers(process::Channel& channel, const msda_own_operator_description& description, const OpenedCall& call,
                 size_t output)
    : of_(description),
      call_(call),
      output_(description.outputs[output]),
      number_(static_cast<int32_t>(output)),
      channel_(channel) {}

std::vector<int64_t> Answers::begin(int64_t flat) {
  element_ = flat;
  std::vector<int64_t> index = kernels::index_of(call_.shape(static_cast<size_t>(output_.tensor)), flat);
  index.resize(MSDA_OWN_MOST_DIMENSIONS);
  return index;
}

void Answers::take_fault(const std::string& fault) {
  if (fault.empty() || !answer_.fault.empty()) return;
  answer_.element = element_;
  answer_.fault = fault;
}

void Answers::send_if(bool enough) {
  if (!enough) return;
  if (!channel_.send_data(std::as_bytes(std::span(words_)))) process::end_process();
  words_.clear();
}

LibraryProcess::Answer Answers::finish() {
  send_if(true);
  return answer_;
}

void Coordinates::add_element(int64_t flat) {
  msda_own_coordinate coordinates[MSDA_OWN_MOST_COORDINATES] = {};
  for (msda_own_coordinate& coordinate : coordinates) coordinate.location.tensor = -1;
  const std::vector<int64_t> index = begin(flat);
  const char* refused = of_.coordinates(&call_.call(), call_.state(), number_, index.data(), coordinates);
  std::string fault = refused == nullptr ? "" : shown(refused, 200);
  for (int32_t i = 0; i < output_.coordinate_count && fault.empty(); ++i) fault = add(coordinates[i]);
  take_fault(fault);
  send_if(words_.size() >= kPiece);
}

std::string Coordinates::add(const msda_own_coordinate& coordinate) {
  uint64_t place = 0;
  if (const std::string fault = call_.find(coordinate.location, place); !fault.empty()) return fault;
  if (coordinate.size < 1 || coordinate.size > int64_t{1} << 30) {
    return fmt::format("the size of a coordinate is {}; it must be from 1 to 2^30", coordinate.size);
  }
  if (coordinate.step_count < 0 || coordinate.step_count > MSDA_OWN_MOST_STEPS) {
    return fmt::format("the step_count of a coordinate is {}; it must be from 0 to {}", coordinate.step_count,
                       MSDA_OWN_MOST_STEPS);
  }
  for (int32_t i = 0; i < coordinate.step_count; ++i) {
    const msda_own_step& step = coordinate.steps[i];
    if (step.operation < MSDA_OWN_ADD || step.operation > MSDA_OWN_DIVIDE || !std::isfinite(step.operand)) {
      return fmt::format("a step of a coordinate has operation {} and operand {}", step.operation, step.operand);
    }
    if (step.operation == MSDA_OWN_DIVIDE && step.operand == 0) return "a step of a coordinate divides by zero";
  }
  words_.insert(words_.end(), {static_cast<uint64_t>(coordinate.location.tensor), place,
                               static_cast<uint64_t>(coordinate.size), static_cast<uint64_t>(coordinate.step_count)});
  for (int32_t i = 0; i < coordinate.step_count; ++i) {
    words_.push_back(static_cast<uint64_t>(coordinate.steps[i].operation));
    words_.push_back(std::bit_cast<uint64_t>(coordinate.steps[i].operand));
  }
  return "";
}

Addends::Addends(process::Channel& channel, const msda_own_operator_description& description, const OpenedCall& call,
                 size_t output)
    : Answers(channel, description, call, output) {
  long double most = output_.addends;
  for (int32_t i = 0; i < output_.over_count; ++i) {
    most *= static_cast<long double>(call.sizes()[static_cast<size_t>(output_.over[i])]);
  }
  most_ = static_cast<int64_t>(std::min(most, 0x1p62L));
}

void Addends::add_element(int64_t flat, std::span<const int32_t> cells) {
  last_ = -2;
  const std::vector<int64_t> index = begin(flat);
  if (answer_.has_too_many) return words_.push_back(words::kEndOfElement);
  int64_t wide[MSDA_OWN_MOST_COORDINATES] = {};
  std::copy_n(cells.begin(), std::min(cells.size(), std::size(wide)), wide);
  const char* fault = of_.addends(&call_.call(), call_.state(), number_, index.data(), wide, take, this);
  if (fault != nullptr && fault != kRefused) take_fault(shown(fault, 200));
  words_.push_back(words::kEndOfElement);
}

const char* Addends::take(void* to, const msda_own_addend* addend) {
  Addends& all = *static_cast<Addends*>(to);
  const std::string fault = addend == nullptr ? "gives add() a null addend" : all.add(*addend);
  all.take_fault(fault);
  all.send_if(all.words_.size() >= kPiece);
  return fault.empty() ? nullptr : kRefused;
}

std::string Addends::add(const msda_own_addend& addend) {
  if (answer_.has_too_many || ++count_ > MSDA_OWN_MOST_ADDENDS) {
    answer_.has_too_many = true;
    return fmt::format("has more than {} addends, the most that are looked at", MSDA_OWN_MOST_ADDENDS);
  }
  const int64_t number = addend.number;
  const bool may_begin = of_.tensors[output_.tensor].role == MSDA_OWN_INOUT;
  if (number < (may_begin ? -1 : 0) || number >= most_) {
    return fmt::format("has an addend of number {}; they go from {} to {}", number, may_begin ? -1 : 0, most_ - 1);
  }
  if (number <= last_)
    return fmt::format("has the addend of number {} after that of {}; numbers ascend", number, last_);
  if (!std::isfinite(addend.weight)) return fmt::format("has the weight {}", addend.weight);
  if (addend.input_count < 0 || addend.input_count > MSDA_OWN_MOST_INPUTS) {
    return fmt::format("has an addend of input_count {}; it must be from 0 to {}", addend.input_count,
                       MSDA_OWN_MOST_INPUTS);
  }
  words::Form form{static_cast<uint8_t>(addend.input_count), {}, {}};
  for (int32_t i = 0; i < output_.coordinate_count; ++i) {
    if (addend.fractions[i] < MSDA_OWN_ONE || addend.fractions[i] > MSDA_OWN_REST) {
      return fmt::format("has {} in fractions, which is no msda_own_factor", addend.fractions[i]);
    }
    form.fractions[i] = static_cast<uint8_t>(addend.fractions[i]);
  }
  uint64_t places[MSDA_OWN_MOST_INPUTS] = {};
  for (int32_t i = 0; i < addend.input_count; ++i) {
    if (std::string fault = call_.find(addend.inputs[i], places[i]); !fault.empty()) return fault;
    form.tensors[i] = static_cast<uint8_t>(addend.inputs[i].tensor);
  }
  last_ = number;
  words_.insert(words_.end(),
                {words::word_of(form), std::bit_cast<uint64_t>(addend.weight), static_cast<uint64_t>(number)});
  words_.insert(words_.end(), places, places + addend.input_count);
  return "";
}

}  // namespace msda::replay
