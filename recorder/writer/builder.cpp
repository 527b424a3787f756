#include "recorder/writer/builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

#include "kernels/msda.h"
#include "kernels/names.h"
#include "recorder/capture/call_attributes.h"
#include "recorder/capture/reader.h"
#include "recorder/writer/code_facts.h"
#include "recorder/writer/types.h"

namespace msda::record {
namespace {

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

// Takes what a launch told into the facts that the format knows.
struct TakeFact {
  const spool::Begin& begin;
  std::map<std::string, std::string>& texts;  // loses what is taken

  void operator()(const char* name, std::string& fact) const { fact = take_text(texts, name); }
  void operator()(const char* name, bool& fact) const { fact = integer(begin.integers, name).value_or(0) != 0; }
  void operator()(const char* name, std::optional<int64_t>& fact) const { fact = integer(begin.integers, name); }
  void operator()(const char* name, std::optional<std::array<int64_t, 3>>& fact) const {
    fact = triple(std::string_view(name) == "grid" ? begin.grid : begin.block);
  }
  void operator()(const char*, std::optional<capture::RecordedTolerance>&) const {}  // a launch has none
};

capture::CallFacts facts_of(const spool::Begin& begin, const spool::Count* count) {
  auto texts = begin.texts;
  capture::CallFacts facts;
  const TakeFact take{begin, texts};
  for_each_call_attribute(facts, take);
  const bool has_dialect = !facts.dialect.empty();
  if (has_dialect) for_each_convention(facts, take);
  // What is left are facts of the adapter's own; "unconfirmed" was for settle().
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

Builder::Builder(const Settings& settings)
    : settings_(settings), spool_(settings.spool), payloads_(spool_, settings.shared_memory, settings.release) {}

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
      seeds_.push_back({seed.time, seed.source, seed.value, static_cast<int64_t>(begun_)});
      break;
    }
    case spool::Kind::kKernel: {
      auto kernel = spool::decode<spool::Kernel>(frame.message);
      const std::string digest = kernel.digest;
      code_[digest] = {std::move(kernel), frame};
      break;
    }
    case spool::Kind::kBegin: {
      auto begin = spool::decode<spool::Begin>(frame.message);
      const std::pair key{begin.invocation, begin.attempt};
      begun_ = std::max(begun_, begin.invocation + 1);
      open_[key] = {std::move(begin), frame, {}, {}, {}, {}};
      break;
    }
    case spool::Kind::kTensor: {
      Item item{spool::decode<spool::Tensor>(frame.message), frame, nullptr};
      item.frame.message.clear();
      const auto found = open_.find({item.tensor.invocation, item.tensor.attempt});
      if (found == open_.end()) break;
      payloads_.arrived(item);
      found->second.tensors.push_back(std::move(item));
      break;
    }
    case spool::Kind::kParameters: {
      auto parameters = spool::decode<spool::Parameters>(frame.message);
      const auto found = open_.find({parameters.invocation, parameters.attempt});
      if (found == open_.end()) break;
      found->second.parameters = std::move(parameters);
      found->second.parameter_bytes = spool_.payload(frame);
      break;
    }
    case spool::Kind::kDigests: {
      auto digests = spool::decode<spool::Digests>(frame.message);
      const auto found = open_.find({digests.invocation, digests.attempt});
      if (found != open_.end()) found->second.digests = std::move(digests.digests);
      break;
    }
    case spool::Kind::kEnd:
      complete(spool::decode<spool::End>(frame.message));
      break;
    case spool::Kind::kCount: {
      const auto count = spool::decode<spool::Count>(frame.message);
      counts_[count.invocation] = count;
      break;
    }
  }
}

Builder::Id Builder::id_of(const Pending& pending) {
  const auto padding = pending.begin.texts.find("padding_mode");
  return {pending.begin.invocation, padding != pending.begin.texts.end() ? padding->second : "",
          integer(pending.begin.integers, "align_corners").value_or(0)};
}

void Builder::complete(const spool::End& end) {
  const auto found = open_.find({end.invocation, end.attempt});
  if (found == open_.end()) return;
  Pending pending = std::move(found->second);
  open_.erase(found);
  if (!std::ranges::all_of(pending.tensors, [&](const Item& item) { return payloads_.has(item); })) {
    ++lost_;
  } else if (!settle(pending)) {
    unexplained_[pending.begin.texts["kernel"]] += 1;
    unexplained_code_.insert(pending.begin.texts["kernel_digest"]);
    drop(pending);
  } else if (end.attempt > 0) {
    write_superseding(pending);
  } else if (settings_.keep_last > 0) {
    hold(std::move(pending));
  } else {
    write(pending);
  }
}

// Finds out the conventions that the launch did not tell; false if nothing explains the outputs.
bool Builder::settle(Pending& pending) {
  auto& texts = pending.begin.texts;
  if (!integer(pending.begin.integers, "unconfirmed")) return true;
  const bool digests_alone = pending.tensors.empty();
  const std::string image = texts["kernel_digest"];
  auto conventions = conventions_.known(pending.begin.invocation, image);
  if (!conventions && digests_alone) return true;
  if (!conventions) {
    std::vector<Item> items = pending.tensors;
    if (pending.begin.attempt > 0) {
      for (Item& item : inputs_of(pending.begin.invocation)) items.push_back(std::move(item));
    }
    std::map<std::string, msda_tensor> tensors;
    std::deque<std::vector<std::byte>> memory;
    for (const Item& item : items) {
      if (item.tensor.section == "outputs_before") continue;
      const auto bytes = payloads_.bytes(item, memory.emplace_back());
      const auto type = kernels::dtype_named(item.tensor.type);
      if (!type) return false;
      tensors[item.tensor.name] =
          msda_contiguous(const_cast<std::byte*>(bytes.data()), *type, static_cast<int32_t>(item.tensor.shape.size()),
                          item.tensor.shape.data());
    }
    const auto dialect = kernels::dialect_named(texts["dialect"]);
    if (!dialect) return false;
    conventions = conventions_.find(pending.begin.invocation, image, *dialect, tensors);
    if (!conventions) return false;
  }
  if (conventions->float_type == MSDA_BFLOAT16) {
    for (Item& item : pending.tensors) {
      if (item.tensor.type == "float16") item.tensor.type = "bfloat16";
    }
  }
  texts["padding_mode"] = msda_padding_name(conventions->padding);
  pending.begin.integers["align_corners"] = conventions->align_corners;
  pending.ambiguous = !conventions->only_ones;
  return true;
}

// With their bytes, of an invocation that is written or held; empty if it is neither.
std::vector<Item> Builder::inputs_of(uint64_t invocation) {
  std::vector<Item> inputs;
  if (const Pending* held = find_held(invocation)) {
    std::ranges::copy_if(held->tensors, std::back_inserter(inputs),
                         [](const Item& item) { return item.tensor.section == "inputs"; });
  } else if (const auto known = inputs_.find(invocation); known != inputs_.end()) {
    for (const spool::Tensor& tensor : known->second) {
      auto bytes = writer().read_input(first_number_.at(invocation), tensor.name);
      inputs.push_back({tensor, {}, std::make_shared<const std::vector<std::byte>>(std::move(bytes))});
    }
  }
  return inputs;
}

// The code of a call, if it is known and not in the capture yet.
std::map<std::string, Builder::Code>::iterator Builder::find_code(const Pending& pending) {
  const auto digest = pending.begin.texts.find("kernel_digest");
  return digest != pending.begin.texts.end() ? code_.find(digest->second) : code_.end();
}

// Into the capture goes the code of calls that are in it, and in the end that of their kernels' other variants. Not
// that of calls which no conventions explained.
void Builder::write_code(const Pending& pending) {
  const auto found = find_code(pending);
  if (found == code_.end()) return;
  const auto& [kernel, frame] = found->second;
  kernels_written_.insert(kernel.name);
  std::vector<std::filesystem::path> folders;
  const auto triton = run_.libraries.find("libtriton.so");  // comes with a disassembler
  if (settings_.trusted && triton != run_.libraries.end()) {
    folders.push_back(std::filesystem::path(triton->second).parent_path().parent_path() / "backends/nvidia/bin");
  }
  capture::KernelImage image{kernel.digest, kernel.name, kernel.architecture, kernel.facts, spool_.payload(frame)};
  constexpr std::chrono::seconds kLimit{10};
  image.facts.merge(count_instructions(find_disassembler(folders), image.image, kernel.name, kLimit));
  writer().add_kernel(image);
  if (settings_.release) spool_.release(frame);
  code_.erase(found);
}

// An autotuner launches many variants of a kernel, and in the end one of them. Their code is for launching that call
// again with another one of them.
void Builder::write_variants() {
  constexpr int64_t kForFacts = 1 << 15;
  for (auto& [digest, code] : code_) {
    const auto& [kernel, frame] = code;
    if (!kernels_written_.contains(kernel.name) || unexplained_code_.contains(digest) ||
        !writer().reserve(kForFacts + static_cast<int64_t>(frame.payload_bytes))) {
      continue;
    }
    writer().add_kernel({kernel.digest, kernel.name, kernel.architecture, kernel.facts, spool_.payload(frame)});
  }
}

// An invocation is not begun where the disk does not have the room for all of it.
bool Builder::has_room_for(const Pending& pending) {
  constexpr int64_t kForFacts = 1 << 17, kForDataset = 1 << 14;  // what describes them, and the beginnings at pages
  int64_t bytes = kForFacts + static_cast<int64_t>(pending.parameter_bytes.size());
  for (const auto& [name, text] : pending.begin.texts) bytes += static_cast<int64_t>(text.size());
  const auto code = find_code(pending);
  if (code != code_.end()) bytes += static_cast<int64_t>(code->second.frame.payload_bytes);
  for (const Item& item : pending.tensors) {
    const int64_t data = Payloads::row_major_bytes(item.tensor);
    if (__builtin_add_overflow(bytes, kForDataset + data, &bytes)) return false;
  }
  return writer().reserve(bytes);
}

void Builder::leave_out(Pending& pending) {
  ++without_room_;
  if (!std::ranges::all_of(pending.tensors, Payloads::in_spool)) return drop(pending);
  spool_holds_more_ = true;
  pending.tensors.clear();
}

// False if it was left out.
bool Builder::write(Pending& pending) {
  if (!has_room_for(pending)) {
    leave_out(pending);
    return false;
  }
  const uint64_t invocation = pending.begin.invocation;
  const auto count = counts_.find(invocation);
  write_code(pending);
  const int64_t number =
      writer().begin_invocation(facts_of(pending.begin, count == counts_.end() ? nullptr : &count->second),
                                {pending.parameter_bytes, pending.parameters.offsets, pending.parameters.sizes});
  number_[id_of(pending)] = number;
  first_number_.emplace(invocation, number);
  if (integer(pending.begin.integers, "unconfirmed")) {
    for (const Item& item : pending.tensors) {
      if (item.tensor.section == "inputs") inputs_[invocation].push_back(item.tensor);
    }
  }
  if (pending.ambiguous) {
    conventions_.note_ambiguous(pending.begin.texts["kernel_digest"], pending.begin.texts["kernel"], number);
  }
  add_tensors(pending);
  writer().flush();
  ++written_;
  drop(pending);
  return true;
}

void Builder::add_tensors(const Pending& pending) {
  writer().add_digests(pending.digests);
  for (const Item& item : pending.tensors) {
    std::vector<std::byte> memory;
    const auto bytes = payloads_.bytes(item, memory);
    const capture::TensorView view{item.tensor.name, type_of(item.tensor.type), item.tensor.shape, bytes,
                                   item.tensor.strides};
    if (item.tensor.section == "inputs") {
      writer().add_input(view);
    } else if (item.tensor.section == "outputs_before") {
      writer().add_output_before(view);
    } else {
      writer().add_output(view);
    }
  }
}

// A later call with equal inputs takes the place of the one before.
void Builder::write_superseding(Pending& pending) {
  const uint64_t invocation = pending.begin.invocation;
  const auto number = number_.find(id_of(pending));
  const auto first = first_number_.find(invocation);
  if (Pending* held = find_held(invocation)) {
    if (id_of(*held) == id_of(pending)) {
      merge(*held, pending);
    } else {
      Pending other = *held;
      other.begin = pending.begin;
      merge(other, pending);
      hold(std::move(other));
    }
  } else if (number != number_.end()) {
    if (!has_room_for(pending)) return leave_out(pending);
    write_code(pending);
    writer().reopen_invocation(number->second, facts_of(pending.begin, nullptr),
                               {pending.parameter_bytes, pending.parameters.offsets, pending.parameters.sizes});
    add_tensors(pending);
    writer().flush();
  } else if (first != first_number_.end()) {  // other conventions than those of the call whose inputs it shares
    const bool has_before =
        std::ranges::any_of(pending.tensors, [](const Item& item) { return item.tensor.section == "outputs_before"; });
    if (!write(pending)) return;
    writer().share(first->second, "inputs");
    if (!has_before) writer().share(first->second, "outputs_before");
    writer().flush();
    return;
  }
  drop(pending);
}

// The later one's facts and tensors take the place of those held.
void Builder::merge(Pending& held, Pending& later) {
  held.begin = later.begin;
  held.parameters = later.parameters;
  held.parameter_bytes = later.parameter_bytes;
  held.digests = later.digests;
  for (Item& item : later.tensors) {
    payloads_.take(item);
    const auto same = std::ranges::find_if(held.tensors, [&](const Item& other) {
      return other.tensor.section == item.tensor.section && other.tensor.name == item.tensor.name;
    });
    if (same != held.tensors.end()) {
      *same = item;
    } else {
      held.tensors.push_back(item);
    }
  }
}

// For as long as it is among the last ones. Its bytes are taken into this process, so that the target has its memory.
void Builder::hold(Pending pending) {
  for (Item& item : pending.tensors) payloads_.take(item);
  held_.push_back(std::move(pending));
  if (static_cast<int64_t>(held_.size()) <= settings_.keep_last) return;
  drop(held_.front());
  held_.pop_front();
}

Builder::Pending* Builder::find_held(uint64_t invocation) {
  const auto found =
      std::ranges::find_if(held_, [&](const Pending& held) { return held.begin.invocation == invocation; });
  return found != held_.end() ? &*found : nullptr;
}

void Builder::drop(Pending& pending) {
  if (settings_.release) spool_.release(pending.begin_frame);  // first: without it the rest is nobody's
  for (const Item& item : pending.tensors) payloads_.release(item);
  pending.tensors.clear();
}

void Builder::finish() {
  follow();
  for (Pending& pending : held_) write(pending);
  held_.clear();
  if (!writer_) return;  // nothing was recorded: no file
  if (written_ == 0) {
    writer_.reset();
    std::filesystem::remove(settings_.output);
    return;
  }
  write_variants();
  write_run();
  if (settings_.stages != Stages::kNone) write_stages();
  writer().close();
}

// What is known of all calls only now.
void Builder::write_run() {
  constexpr size_t kForFacts = 1 << 17, kForCount = 1 << 10, kForSeed = 1 << 7, kForText = 1 << 10;
  size_t bytes = kForFacts + kForCount * counts_.size() + kForSeed * seeds_.size();
  for (const std::string& text : run_.argv) bytes += text.size() + kForText;
  for (const auto* texts : {&run_.environment, &run_.libraries, &run_.facts}) {
    for (const auto& [name, text] : *texts) bytes += name.size() + text.size() + kForText;
  }
  without_run_ = !writer().reserve(static_cast<int64_t>(bytes));
  if (without_run_) return;
  for (const auto& [invocation, count] : counts_) {
    const auto number = first_number_.find(invocation);
    if (number != first_number_.end()) {
      writer().set_duplicates(number->second, count.duplicates, count.distinct_outputs);
    }
  }
  for (const auto& [number, conventions] : conventions_.decided_later()) {
    writer().set_conventions(number, msda_padding_name(conventions.padding), conventions.align_corners);
  }
  for (capture::Seed& seed : seeds_) {
    const auto next = first_number_.lower_bound(static_cast<uint64_t>(*seed.invocation));
    seed.invocation = next == first_number_.end() ? written_ : next->second;
  }
  writer().write_run({run_.argv, run_.environment, run_.libraries, run_.facts}, seeds_);
}

// Of what the capture holds now that the target has ended: before, the target would wait for it, and conventions might
// still turn out to be others.
void Builder::write_stages() {
  writer().flush();
  const capture::Reader reader(settings_.output);
  for (const int64_t id : reader.invocation_ids()) {
    std::string kernel = fmt::format("invocation {}", id);  // until it can be read
    const auto without = [&](const std::string& why) {
      Stageless& of_kernel = stageless_[kernel];
      if (of_kernel.count++ == 0) of_kernel.why = why;
    };
    std::deque<capture::Tensor> memory;
    std::map<std::string, capture::TensorView> inputs;
    capture::CallFacts facts;
    try {
      const capture::Invocation invocation = reader.invocation(id);
      facts = invocation.facts;
      kernel = facts.kernel;
      for (const capture::TensorInfo& info : invocation.inputs) {
        const capture::Tensor& tensor = memory.emplace_back(reader.read(info));
        inputs[info.name] = {info.name, info.type, info.shape, tensor.bytes()};
      }
    } catch (const capture::Error& e) {
      without(e.what());
      continue;
    }
    writer().continue_invocation(id);
    try {
      add_stages(facts, inputs, settings_.stages == Stages::kFull, kStageMemory, writer());
    } catch (const NoStages& e) {
      writer().drop_stages();
      without(e.what());
    }
    writer().flush();
  }
}

}  // namespace msda::record
