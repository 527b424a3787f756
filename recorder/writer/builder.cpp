#include "recorder/writer/builder.h"

#include <algorithm>
#include <array>
#include <optional>

#include "kernels/msda.h"
#include "recorder/writer/confirm.h"

namespace msda::record {
namespace {

using capture::ElementType;

ElementType type_of(const std::string& name) {
  for (const ElementType type :
       {ElementType::kFloat16, ElementType::kBFloat16, ElementType::kFloat32, ElementType::kFloat64,
        ElementType::kInt32, ElementType::kInt64, ElementType::kUInt8}) {
    if (name_of(type) == name) return type;
  }
  throw spool::Error("a tensor in the spool has the unknown type " + name);
}

std::string take_text(std::map<std::string, std::string>& texts, const char* name) {
  const auto found = texts.find(name);
  if (found == texts.end()) return "";
  std::string text = std::move(found->second);
  texts.erase(found);
  return text;
}

std::optional<int64_t> integer(const std::map<std::string, int64_t>& integers, const char* name) {
  const auto found = integers.find(name);
  return found == integers.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::array<int64_t, 3>> triple(const std::vector<int64_t>& numbers) {
  if (numbers.size() != 3) return std::nullopt;
  return std::array{numbers[0], numbers[1], numbers[2]};
}

capture::CallFacts facts_of(const spool::Begin& begin, const spool::Count* count) {
  auto texts = begin.texts;
  capture::CallFacts facts;
  facts.kernel = take_text(texts, "kernel");
  facts.kernel_digest = take_text(texts, "kernel_digest");
  facts.dialect = take_text(texts, "dialect");
  const bool has_dialect = !facts.dialect.empty();
  if (has_dialect) facts.padding_mode = take_text(texts, "padding_mode");
  facts.time = take_text(texts, "time");
  facts.label = take_text(texts, "label");
  if (has_dialect) facts.align_corners = integer(begin.integers, "align_corners").value_or(0) != 0;
  facts.grid = triple(begin.grid);
  facts.block = triple(begin.block);
  facts.shared_bytes = integer(begin.integers, "shared_bytes");
  facts.stream = integer(begin.integers, "stream");
  facts.device = integer(begin.integers, "device");
  facts.process = integer(begin.integers, "process");
  facts.thread = integer(begin.integers, "thread");
  // What is left are facts of the adapter's own; "unconfirmed" was for confirmed().
  facts.texts = std::move(texts);
  for (const auto& [name, value] : begin.integers) {
    if (!capture::is_call_attribute(name, has_dialect) && name != "unconfirmed") facts.integers[name] = value;
  }
  if (count != nullptr) {
    facts.duplicates = count->duplicates;
    facts.distinct_outputs = count->distinct_outputs;
  }
  return facts;
}

}  // namespace

Builder::Builder(const Settings& settings) : settings_(settings), spool_(settings.spool) {}

capture::Writer& Builder::writer() {
  if (!writer_) {
    writer_ = std::make_unique<capture::Writer>(
        settings_.output, settings_.force ? capture::Writer::IfExists::kReplace : capture::Writer::IfExists::kRefuse,
        settings_.tool_version);
  }
  return *writer_;
}

void Builder::follow() {
  while (const auto frame = spool_.next()) {
    try {
      take(*frame);
    } catch (const spool::BadMessage& e) {
      throw spool::Error(settings_.spool + ": " + e.what());
    }
  }
}

void Builder::take(const spool::Frame& frame) {
  switch (frame.kind) {
    case spool::Kind::kRun:
      run_ = spool::decode<spool::Run>(frame.message);
      break;
    case spool::Kind::kSeed: {
      const auto seed = spool::decode<spool::Seed>(frame.message);
      seeds_.push_back({seed.time, seed.source, seed.value});
      break;
    }
    case spool::Kind::kKernel: {
      const auto kernel = spool::decode<spool::Kernel>(frame.message);
      writer().add_kernel({kernel.digest, kernel.name, kernel.architecture, kernel.facts, spool_.payload(frame)});
      break;
    }
    case spool::Kind::kBegin: {
      auto begin = spool::decode<spool::Begin>(frame.message);
      const uint64_t invocation = begin.invocation;
      open_[invocation] = {std::move(begin), frame, {}, {}, {}};
      break;
    }
    case spool::Kind::kTensor: {
      auto tensor = spool::decode<spool::Tensor>(frame.message);
      Pending* pending = find(tensor.invocation);
      if (pending == nullptr) break;
      spool::Frame place = frame;
      place.message.clear();
      // A tensor that comes again takes the place of the first.
      const auto same = std::ranges::find_if(pending->tensors, [&](const Item& item) {
        return item.tensor.section == tensor.section && item.tensor.name == tensor.name;
      });
      if (same != pending->tensors.end()) {
        if (settings_.release) spool_.release(same->frame);
        *same = {std::move(tensor), std::move(place)};
      } else {
        pending->tensors.push_back({std::move(tensor), std::move(place)});
      }
      break;
    }
    case spool::Kind::kParameters: {
      auto parameters = spool::decode<spool::Parameters>(frame.message);
      const auto found = open_.find(parameters.invocation);
      if (found == open_.end()) break;
      found->second.parameters = std::move(parameters);
      found->second.parameter_frame = frame;
      break;
    }
    case spool::Kind::kEnd:
      complete(spool::decode<spool::End>(frame.message).invocation);
      break;
    case spool::Kind::kCount: {
      const auto count = spool::decode<spool::Count>(frame.message);
      counts_[count.invocation] = count;
      break;
    }
  }
}

Builder::Pending* Builder::find(uint64_t invocation) {
  const auto found = open_.find(invocation);
  if (found != open_.end()) return &found->second;
  for (Pending& pending : held_) {
    if (pending.begin.invocation == invocation) return &pending;
  }
  return nullptr;
}

void Builder::complete(uint64_t invocation) {
  const auto found = open_.find(invocation);
  if (found == open_.end()) return;
  Pending pending = std::move(found->second);
  open_.erase(found);
  if (!confirmed(pending)) {
    unexplained_[pending.begin.texts["kernel"]] += 1;
    release(pending);
    return;
  }
  held_.push_back(std::move(pending));
  const bool all = settings_.keep_last == 0;
  if (static_cast<int64_t>(held_.size()) <= (all ? kHeldBack : settings_.keep_last)) return;
  if (all) {
    write(held_.front());
  } else {
    release(held_.front());
  }
  held_.pop_front();
}

bool Builder::confirmed(Pending& pending) {
  if (!integer(pending.begin.integers, "unconfirmed")) return true;
  std::map<std::string, msda_tensor> tensors;
  std::vector<std::vector<std::byte>> memory;
  for (const Item& item : pending.tensors) {
    if (item.tensor.section == "outputs_before") continue;
    memory.push_back(spool_.payload(item.frame));
    msda_dtype type = MSDA_FLOAT32;
    while (type <= MSDA_INT64 && item.tensor.type != msda_dtype_name(type)) type = static_cast<msda_dtype>(type + 1);
    tensors[item.tensor.name] = msda_contiguous(
        memory.back().data(), type, static_cast<int32_t>(item.tensor.shape.size()), item.tensor.shape.data());
  }
  auto& texts = pending.begin.texts;
  msda_dialect dialect = MSDA_DEFORMABLE_DETR;
  while (dialect <= MSDA_GRID_SAMPLE && texts["dialect"] != msda_dialect_name(dialect)) {
    dialect = static_cast<msda_dialect>(dialect + 1);
  }
  const auto conventions = confirm(dialect, tensors);
  if (!conventions) return false;
  if (!conventions->only_ones) ++ambiguous_[texts["kernel"]];
  texts["padding_mode"] = msda_padding_name(conventions->padding);
  pending.begin.integers["align_corners"] = conventions->align_corners;
  return true;
}

void Builder::write(const Pending& pending) {
  const auto count = counts_.find(pending.begin.invocation);
  const capture::CallFacts facts = facts_of(pending.begin, count == counts_.end() ? nullptr : &count->second);
  capture::Parameters parameters;
  if (!pending.parameters.offsets.empty()) {
    parameters = {spool_.payload(pending.parameter_frame), pending.parameters.offsets, pending.parameters.sizes};
  }
  const int64_t number = writer().begin_invocation(facts, parameters);
  number_[pending.begin.invocation] = number;
  for (const Item& item : pending.tensors) {
    const std::vector<std::byte> bytes = spool_.payload(item.frame);
    const capture::TensorView view{item.tensor.name, type_of(item.tensor.type), item.tensor.shape, bytes};
    if (item.tensor.section == "inputs") {
      writer().add_input(view);
    } else if (item.tensor.section == "outputs_before") {
      writer().add_output_before(view);
    } else {
      writer().add_output(view);
    }
  }
  writer().flush();
  ++written_;
  release(pending);
}

void Builder::release(const Pending& pending) {
  if (!settings_.release) return;
  spool_.release(pending.begin_frame);  // first: without it the rest is nobody's
  for (const Item& item : pending.tensors) spool_.release(item.frame);
}

void Builder::finish() {
  follow();
  for (const Pending& pending : held_) write(pending);
  held_.clear();
  for (const auto& [invocation, count] : counts_) {
    const auto number = number_.find(invocation);
    if (number != number_.end()) writer().set_duplicates(number->second, count.duplicates, count.distinct_outputs);
  }
  if (written_ == 0 && !writer_) return;  // nothing was recorded: no file
  writer().write_run({run_.argv, run_.environment, run_.libraries, run_.facts}, seeds_);
  writer().close();
}

}  // namespace msda::record
