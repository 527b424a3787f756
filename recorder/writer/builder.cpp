#include "recorder/writer/builder.h"

#include <algorithm>
#include <deque>
#include <filesystem>
#include <iterator>

#include "kernels/msda.h"
#include "kernels/names.h"
#include "recorder/spool/check.h"
#include "recorder/spool/output.h"
#include "recorder/writer/facts.h"

namespace msda::record {

Builder::Builder(const Settings& settings)
    : settings_(settings), spool_(settings.spool), payloads_(spool_, settings.shared_memory, settings.release) {}

std::string Builder::output() const {
  return renamed_ == 0 ? settings_.output : spool::next_name(settings_.output, renamed_);
}

capture::Writer& Builder::writer() {
  if (!writer_) {
    // Another thread may call before the program has moved the capture that it has completed.
    const auto is_taken = [&] { return cuts_kept_ > 0 && std::filesystem::exists(output()); };
    for (renamed_ = 0; is_taken();) renamed_ = renamed_ == 0 ? cuts_kept_ : renamed_ + 1;
    writer_ = std::make_unique<capture::Writer>(
        output(), settings_.force ? capture::Writer::IfExists::kReplace : capture::Writer::IfExists::kRefuse,
        settings_.tool_version);
  }
  return *writer_;
}

bool Builder::follow() {
  return named([this] {
    while (const auto frame = spool_.next()) {
      take(*frame);
      if (frame->kind == spool::Kind::kCut) return true;
    }
    return false;
  });
}

void Builder::take(const spool::Frame& frame) {
  switch (frame.kind) {
    case spool::Kind::kRun:
      run_ = spool::decode<spool::Run>(frame.message);
      return;
    case spool::Kind::kSeed: {
      const auto seed = spool::decode<spool::Seed>(frame.message);
      seeds_.push_back({seed.time, seed.source, seed.value, static_cast<int64_t>(begun_)});
      return;
    }
    case spool::Kind::kKernel: {
      auto kernel = spool::decode<spool::Kernel>(frame.message);
      spool::check_payload(kernel, frame.payload_bytes);
      // The image comes with one of its functions, which need not be the first.
      if (frame.payload_bytes > 0) images_.try_emplace(kernel.digest, frame);
      const Function function{kernel.digest, kernel.name};
      code_.try_emplace(function, Code{std::move(kernel)});
      return;
    }
    case spool::Kind::kBegin:
      return begin(spool::decode<spool::Begin>(frame.message), frame);
    case spool::Kind::kTensor:
      return add(spool::decode<spool::Tensor>(frame.message), frame);
    case spool::Kind::kParameters: {
      auto parameters = spool::decode<spool::Parameters>(frame.message);
      spool::check_payload(parameters, frame.payload_bytes);
      if (Pending* pending = find_open(parameters)) {
        pending->parameters = std::move(parameters);
        pending->parameter_bytes = spool_.payload(frame);
      }
      return;
    }
    case spool::Kind::kDigests: {
      auto digests = spool::decode<spool::Digests>(frame.message);
      if (Pending* pending = find_open(digests)) pending->digests = std::move(digests.digests);
      return;
    }
    case spool::Kind::kEnd:
      return complete(spool::decode<spool::End>(frame.message));
    case spool::Kind::kCount: {
      const auto count = spool::decode<spool::Count>(frame.message);
      counts_[count.invocation] = count;
      called_again(count.invocation);
      return;
    }
    case spool::Kind::kSurveyed: {
      auto surveyed = spool::decode<spool::Surveyed>(frame.message);
      surveyed_[surveyed.number] = std::move(surveyed);
      return;
    }
    case spool::Kind::kTrail: {
      const auto part = spool::decode<spool::TrailPart>(frame.message);
      return trail_.add(part, spool_.payload(frame));
    }
    case spool::Kind::kDrop:
      return drop_invocation(spool::decode<spool::Drop>(frame.message).invocation);
    case spool::Kind::kCut:
      if (settings_.cuts) cut(spool::decode<spool::Cut>(frame.message));
      return;
  }
  throw spool::Error("a frame is of an unknown kind");
}

// Keeps held_ in the order of the last calls.
void Builder::called_again(uint64_t invocation) {
  std::ranges::stable_partition(held_, [&](const Pending& held) { return held.begin.invocation != invocation; });
}

// A killed target has not reported the last invocation to drop.
void Builder::drop_more_than_are_kept() {
  std::set<uint64_t> invocations;
  for (const Pending& held : held_) invocations.insert(held.begin.invocation);
  for (auto count = static_cast<int64_t>(invocations.size()); count > settings_.keep_last; --count) {
    drop_invocation(held_.front().begin.invocation);
  }
}

// Written invocations stay: the target withdraws only calls that have not ended and calls that are held.
void Builder::drop_invocation(uint64_t invocation) {
  for (auto open = open_.lower_bound({invocation, 0}); open != open_.end() && open->first.first == invocation;) {
    drop(open->second);
    open = open_.erase(open);
  }
  for (auto held = held_.begin(); held != held_.end();) {
    if (held->begin.invocation != invocation) {
      ++held;
      continue;
    }
    drop(*held);
    held = held_.erase(held);
  }
}

void Builder::begin(spool::Begin begin, const spool::Frame& frame) {
  const std::pair key{begin.invocation, begin.attempt};
  begun_ = std::max(begun_, begin.invocation + 1);
  Pending pending;
  pending.begin = std::move(begin);
  pending.begin_frames = {frame};
  pending.begin_frames.front().message.clear();
  if (!open_.emplace(key, std::move(pending)).second) throw spool::Error("an invocation begins twice");
}

void Builder::add(spool::Tensor tensor, const spool::Frame& frame) {
  spool::check_payload(tensor, frame.payload_bytes);
  Pending* pending = find_open(tensor);
  if (pending == nullptr) return;
  if (pending->tensors.size() == spool::kMostFacts || pending->find(tensor) != pending->tensors.end()) {
    throw spool::Error("an invocation has a tensor twice, or too many");
  }
  Item item{std::move(tensor), frame, nullptr};
  item.frame.message.clear();
  payloads_.use(item);
  pending->tensors.push_back(std::move(item));
}

std::vector<Item>::iterator Builder::Pending::find(const spool::Tensor& tensor) {
  return std::ranges::find_if(tensors, [&](const Item& item) {
    return item.tensor.section == tensor.section && item.tensor.description.name == tensor.description.name;
  });
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
    lost_.insert({end.invocation, end.attempt});
    return;
  }
  ++ended_;
  ended_in_spool_ += std::ranges::all_of(pending.tensors, Payloads::in_spool);
  lost_.erase({end.invocation, end.attempt});  // the target has sent it again
  Payloads::check_sizes(pending.tensors);
  if (!settle(pending)) {
    unexplained_[pending.begin.texts["kernel"]] += 1;
    unexplained_code_.insert(pending.begin.texts["kernel_digest"]);
    drop(pending);
  } else if (is_discarded()) {
    drop(pending);
  } else if (end.attempt > 0) {
    write_superseding(pending);
  } else if (settings_.keep_last > 0 || may_be_discarded(pending)) {
    hold(std::move(pending));
  } else {
    write_held();
    write(pending);
  }
}

// Returns whether the target has discarded the calls so far by now. If other threads call faster than this process
// writes, it would otherwise fall behind farther with each capture that is completed.
bool Builder::is_discarded() {
  if (!settings_.cuts) return false;
  const auto& cut = spool_.next_cut();
  return cut && !spool::decode<spool::Cut>(cut->message).keep;
}

// Once a capture was discarded, later ones will be: their calls are not written before that is known, up to a limit.
bool Builder::may_be_discarded(const Pending& pending) const {
  constexpr int64_t kMostBytes = 256 << 20;
  constexpr size_t kMostCalls = 1000;
  if (!has_discarded_ || held_.size() >= kMostCalls) return false;
  int64_t bytes = 0;
  const auto add = [&](const Pending& call) {
    for (const Item& item : call.tensors) bytes += Payloads::row_major_bytes(item.tensor.description);
  };
  add(pending);
  std::ranges::for_each(held_, add);
  return bytes <= kMostBytes;
}

// Determines conventions that the launch did not show. Returns false if none explains the outputs.
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
      const tensors::Description& tensor = item.tensor.description;
      if (tensor.type == kernels::kUInt8) return false;
      tensors[tensor.name] = msda_contiguous(const_cast<std::byte*>(bytes.data()), tensor.type,
                                             static_cast<int32_t>(tensor.shape.size()), tensor.shape.data());
    }
    const auto dialect = kernels::dialect_named(texts["dialect"]);
    if (!dialect) return false;
    conventions = conventions_.find(pending.begin.invocation, image, *dialect, tensors);
    if (!conventions) return false;
  }
  if (conventions->float_type == MSDA_BFLOAT16) {
    for (Item& item : pending.tensors) {
      msda_dtype& type = item.tensor.description.type;
      if (type == MSDA_FLOAT16) type = MSDA_BFLOAT16;
    }
  }
  texts["padding_mode"] = msda_padding_name(conventions->padding);
  pending.begin.integers["align_corners"] = conventions->align_corners;
  pending.ambiguous = !conventions->are_only_ones();
  if (pending.ambiguous) texts[capture::kFittingConventions] = conventions->all();
  return true;
}

// Returns the inputs, with their bytes, of an invocation that is written or held; empty if it is neither.
std::vector<Item> Builder::inputs_of(uint64_t invocation) {
  std::vector<Item> inputs;
  const auto number = first_number_.find(invocation);
  const auto known = number != first_number_.end() ? calls_.find(number->second) : calls_.end();
  if (const Pending* held = find_held(invocation)) {
    std::ranges::copy_if(held->tensors, std::back_inserter(inputs),
                         [](const Item& item) { return item.tensor.section == "inputs"; });
  } else if (known != calls_.end()) {
    for (const tensors::Description& tensor : known->second.inputs) {
      auto bytes = writer().read_input(number->second, tensor.name);
      inputs.push_back(
          {{invocation, 0, "inputs", tensor}, {}, std::make_shared<const std::vector<std::byte>>(std::move(bytes))});
    }
  }
  return inputs;
}

// Replaces the held facts and tensors by the later ones.
void Builder::merge(Pending& held, Pending& later) {
  held.begin = later.begin;
  std::ranges::move(later.begin_frames, std::back_inserter(held.begin_frames));
  later.begin_frames.clear();
  held.parameters = later.parameters;
  held.parameter_bytes = later.parameter_bytes;
  held.digests = later.digests;
  payloads_.keep(later.tensors);
  for (Item& item : later.tensors) {
    const auto same = held.find(item.tensor);
    if (same != held.tensors.end()) {
      payloads_.release(*same);
      *same = std::move(item);
    } else {
      held.tensors.push_back(std::move(item));
    }
  }
  later.tensors.clear();
}

// Holds a call until the target reports that it is no longer among the last. Data in the spool stay there, where they
// outlive this process.
void Builder::hold(Pending pending) {
  payloads_.keep(pending.tensors);
  held_.push_back(std::move(pending));
}

Builder::Pending* Builder::find_held(uint64_t invocation) {
  const auto found =
      std::ranges::find_if(held_, [&](const Pending& held) { return held.begin.invocation == invocation; });
  return found != held_.end() ? &*found : nullptr;
}

Builder::Pending* Builder::find_held(const Id& id) {
  const auto found = std::ranges::find_if(held_, [&](const Pending& held) { return id_of(held) == id; });
  return found != held_.end() ? &*found : nullptr;
}

// Releases a written call's bytes, except those in the spool, which stay until the capture is closed: if this process
// is killed while HDF5 writes, the capture is unreadable.
void Builder::keep_until_closed(Pending& pending) {
  std::ranges::move(pending.begin_frames, std::back_inserter(in_capture_));
  for (const Item& item : pending.tensors) {
    if (Payloads::in_spool(item)) {
      in_capture_.push_back(item.frame);
    } else {
      payloads_.release(item);
    }
  }
  pending.tensors.clear();
}

void Builder::drop(Pending& pending) {
  if (settings_.release) {  // first: without this frame the others belong to no call
    for (const spool::Frame& frame : pending.begin_frames) spool_.release(frame);
  }
  for (const Item& item : pending.tensors) payloads_.release(item);
  pending.tensors.clear();
}

}  // namespace msda::record
