// Writes a Builder's capture.
#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "recorder/capture/isolated_reader.h"
#include "recorder/device/instructions.h"
#include "recorder/writer/builder.h"
#include "recorder/writer/facts.h"

namespace msda::record {

Builder::Function Builder::function_of(const Pending& pending) {
  const auto text = [&](const char* name) {
    const auto found = pending.begin.texts.find(name);
    return found == pending.begin.texts.end() ? std::string() : found->second;
  };
  return {text("kernel_digest"), text("kernel")};
}

// Returns the code of a call, if it is known and not yet in the capture.
Builder::Code* Builder::find_code(const Pending& pending) {
  const auto found = code_.find(function_of(pending));
  return found != code_.end() && !found->second.written ? &found->second : nullptr;
}

// The capture gets the code of the calls in it and, at the end, of their kernels' other variants, but not the code of
// calls that no conventions explained.
void Builder::write_code(const Pending& pending) {
  Code* code = find_code(pending);
  if (code == nullptr) return;
  code->is_launched = true;
  kernels_written_.insert(code->kernel.name);
  // Otherwise its image may still come, and both are written at the end.
  if (images_.contains(code->kernel.digest)) write_function(*code);
}

// Returns what an image adds to the capture, which holds it once for all of its functions.
int64_t Builder::image_bytes_to_write(const std::string& digest) const {
  const auto image = images_.find(digest);
  const bool is_new = image != images_.end() && !images_written_.contains(digest);
  return is_new ? static_cast<int64_t>(image->second.payload_bytes) : 0;
}

void Builder::write_function(Code& code) {
  const auto& [digest, name, architecture, facts] = code.kernel;
  capture::KernelImage kernel{digest, name, architecture, facts, {}};
  if (const auto image = images_.find(digest); image != images_.end()) {
    std::vector<std::byte> cubin = spool_.payload(image->second);
    kernel.facts.merge(count_instructions(cubin, name, architecture));
    if (images_written_.insert(digest).second) kernel.image = std::move(cubin);
  }
  writer().add_kernel(kernel);
  code.written = true;
}

// Writes the code of variants that were not chosen: an autotuner launches many variants of a kernel and chooses one.
// With their code the recorded call can be launched again with another variant.
void Builder::write_variants() {
  constexpr int64_t kForFacts = 1 << 15;
  for (auto& [function, code] : code_) {
    if (code.written || !kernels_written_.contains(function.name)) continue;
    if (!code.is_launched && unexplained_code_.contains(function.image)) continue;
    if (writer().reserve(kForFacts + image_bytes_to_write(function.image))) write_function(code);
  }
}

// Returns whether the disk has space for all of an invocation; otherwise the invocation is not begun.
bool Builder::has_room_for(const Pending& pending) {
  constexpr int64_t kForFacts = 1 << 17, kForDataset = 1 << 14;  // for attributes, and for alignment to pages
  int64_t bytes = kForFacts + static_cast<int64_t>(pending.parameter_bytes.size());
  for (const auto& [name, text] : pending.begin.texts) bytes += static_cast<int64_t>(text.size());
  if (const Code* code = find_code(pending)) bytes += image_bytes_to_write(code->kernel.digest);
  for (const Item& item : pending.tensors) {
    const int64_t data = Payloads::row_major_bytes(item.tensor.description);
    if (__builtin_add_overflow(bytes, kForDataset + data, &bytes)) return false;
  }
  // The program still appends to the spool, a kilobyte for each call, and would have to end the recording.
  constexpr int64_t kForSpool = 1 << 18;
  return writer().reserve(bytes, kForSpool);
}

void Builder::leave_out(Pending& pending) {
  ++without_room_;
  if (!std::ranges::all_of(pending.tensors, Payloads::in_spool)) return drop(pending);
  spool_holds_more_ = true;
  pending.tensors.clear();
}

// Returns false if the call was left out.
bool Builder::write(Pending& pending) {
  if (!has_room_for(pending)) {
    leave_out(pending);
    return false;
  }
  const uint64_t invocation = pending.begin.invocation;
  const auto count = counts_.find(invocation);
  write_code(pending);
  const capture::CallFacts facts = facts_of(pending.begin, count == counts_.end() ? nullptr : &count->second);
  const int64_t number =
      writer().begin_invocation(facts, {pending.parameter_bytes, pending.parameters.offsets, pending.parameters.sizes});
  number_[id_of(pending)] = number;
  first_number_.emplace(invocation, number);
  if (settings_.stages != Stages::kNone || integer(pending.begin.integers, "unconfirmed")) {
    Call& call = calls_[number];
    call.facts = facts;
    for (const Item& item : pending.tensors) {
      if (item.tensor.section == "inputs") call.inputs.push_back(item.tensor.description);
    }
  }
  if (pending.ambiguous) {
    conventions_.note_ambiguous(pending.begin.texts["kernel_digest"], pending.begin.texts["kernel"], number);
  }
  add_tensors(pending);
  writer().flush();
  ++written_;
  keep_until_closed(pending);
  return true;
}

void Builder::add_tensors(const Pending& pending) {
  writer().add_digests(pending.digests);
  for (const Item& item : pending.tensors) {
    std::vector<std::byte> memory;
    const auto bytes = payloads_.bytes(item, memory);
    const capture::TensorView view{item.tensor.description, bytes};
    if (item.tensor.section == "inputs") {
      writer().add_input(view);
    } else if (item.tensor.section == "outputs_before") {
      writer().add_output_before(view);
    } else {
      writer().add_output(view);
    }
  }
}

// A later call with equal inputs replaces the one before.
void Builder::write_superseding(Pending& pending) {
  const uint64_t invocation = pending.begin.invocation;
  called_again(invocation);
  const auto number = number_.find(id_of(pending));
  const auto first = first_number_.find(invocation);
  if (Pending* same = find_held(id_of(pending))) {
    merge(*same, pending);
  } else if (const Pending* held = find_held(invocation)) {  // with the same inputs under other conventions
    Pending merged = *held;
    merged.begin_frames.clear();
    for (const Item& item : merged.tensors) payloads_.use(item);
    merge(merged, pending);
    hold(std::move(merged));
  } else if (number != number_.end()) {
    replace(number->second, pending);
  } else if (first != first_number_.end()) {
    write_sharing_inputs(first->second, pending);
  } else {
    drop(pending);
  }
}

void Builder::replace(int64_t number, Pending& pending) {
  if (!has_room_for(pending)) return leave_out(pending);
  write_code(pending);
  const capture::CallFacts facts = facts_of(pending.begin, nullptr);
  writer().reopen_invocation(number, facts,
                             {pending.parameter_bytes, pending.parameters.offsets, pending.parameters.sizes});
  if (const auto call = calls_.find(number); call != calls_.end()) call->second.facts = facts;
  add_tensors(pending);
  writer().flush();
  keep_until_closed(pending);
}

// Writes a call with other conventions than the call whose inputs it shares.
void Builder::write_sharing_inputs(int64_t first, Pending& pending) {
  const bool has_before =
      std::ranges::any_of(pending.tensors, [](const Item& item) { return item.tensor.section == "outputs_before"; });
  const Id id = id_of(pending);
  if (!write(pending)) return;
  writer().share(first, "inputs");
  if (!has_before) writer().share(first, "outputs_before");
  if (const auto call = calls_.find(first); call != calls_.end()) calls_[number_.at(id)].inputs = call->second.inputs;
  writer().flush();
}

void Builder::finish() {
  while (follow()) {
  }
  if (trail_ended_early()) run_.facts[capture::kTrailEnd] = capture::kEarly;
  named([this] { complete_capture(); });
}

void Builder::write_held() {
  std::ranges::stable_sort(held_, {}, [](const Pending& held) { return held.begin.invocation; });
  for (Pending& pending : held_) write(pending);
  held_.clear();
}

void Builder::complete_capture() {
  if (settings_.keep_last > 0) drop_more_than_are_kept();
  write_held();
  if (!writer_ && !has_more()) return;  // nothing was recorded: no file
  if (written_ == 0 && !has_more()) {
    writer_.reset();
    return;
  }
  write_survey();
  write_trail();
  write_variants();
  write_run();
  writer().flush();
  if (settings_.stages != Stages::kNone) write_stages();
  close_capture();
  // When the target ends, the spool is removed, unless it holds more.
  if (settings_.release && spool_holds_more_) release_written_frames();
}

// What another program has written into the capture meanwhile may have damaged it.
void Builder::close_capture() {
  bool is_whole = false;
  try {
    writer().close();
    is_whole = !writer().was_disturbed() || capture::IsolatedReader(output()).verify().differences.empty();
  } catch (const capture::Displaced&) {
    throw;
  } catch (const capture::Error&) {
    if (!writer().was_disturbed()) throw;
  }
  if (is_whole) return;
  throw capture::Error(
      fmt::format("{}: another program wrote into it while it was recorded, and damaged it", output()));
}

// Frames that begin calls come before their tensors.
void Builder::release_written_frames() {
  for (const spool::Frame& frame : in_capture_) spool_.release(frame);
  in_capture_.clear();
}

void Builder::discard_capture() {
  for (Pending& pending : held_) drop(pending);
  held_.clear();
  if (writer_) writer_->discard();
  has_discarded_ = true;
}

void Builder::cut(const spool::Cut& cut) {
  if (cut.keep) {
    complete_capture();
    last_cut_ = {cut.number, written_, renamed_};
    payloads_.answer(last_cut_);
    ++cuts_kept_;
    completed_ += written_;
  } else {
    discard_capture();
  }
  if (settings_.release) release_written_frames();
  conventions_.begin_next_capture(cut.keep);
  begin_next_capture();
}

// Calls under way belong to the next capture, as does code that was delivered: it is in the spool only once.
void Builder::begin_next_capture() {
  writer_.reset();
  for (auto& [function, code] : code_) code.written = code.is_launched = false;
  images_written_.clear();
  kernels_written_.clear();
  number_.clear();
  first_number_.clear();
  calls_.clear();
  counts_.clear();
  written_ = 0;
  // The last earlier seed of each source may still be in force.
  std::set<std::string> sources;
  std::vector<capture::Seed> last;
  for (auto seed = seeds_.rbegin(); seed != seeds_.rend(); ++seed) {
    if (sources.insert(seed->source).second) last.push_back(*seed);
  }
  seeds_.assign(last.rbegin(), last.rend());
}

void Builder::write_survey() {
  constexpr size_t kForKernel = 1 << 13;
  std::vector<capture::SurveyedKernel> kernels;
  size_t bytes = 0;
  for (const auto& [number, surveyed] : surveyed_) {
    kernels.push_back({surveyed.texts, surveyed.integers, surveyed.numbers});
    bytes += kForKernel;
    for (const auto& [name, text] : surveyed.texts) bytes += text.size();
  }
  if (!kernels.empty() && writer().reserve(static_cast<int64_t>(bytes))) writer().write_survey(kernels);
}

void Builder::write_trail() {
  if (trail_.trail().is_empty()) return;
  if (!writer().reserve(trail_.bytes())) throw capture::Error(output() + ": no room on its disk for the trail");
  writer().write_trail(trail_.trail());
}

// Writes what is known only after all calls.
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
    if (const auto call = calls_.find(number); call != calls_.end()) {
      call->second.facts.padding_mode = msda_padding_name(conventions.padding);
      call->second.facts.align_corners = conventions.align_corners;
      call->second.facts.texts.erase(capture::kFittingConventions);
    }
  }
  std::vector<capture::Seed> seeds = seeds_;
  for (capture::Seed& seed : seeds) {
    const auto next = first_number_.lower_bound(static_cast<uint64_t>(*seed.invocation));
    seed.invocation = next == first_number_.end() ? written_ : next->second;
  }
  writer().write_run({run_.argv, run_.environment, run_.libraries, run_.facts}, seeds);
}

// Runs after the target has ended: earlier, the target would wait for it, and conventions might still change.
void Builder::write_stages() {
  for (const auto& [number, call] : calls_) {
    std::deque<std::vector<std::byte>> memory;
    std::map<std::string, capture::TensorView> inputs;
    for (const tensors::Description& input : call.inputs) {
      inputs[input.name] = {input, memory.emplace_back(writer().read_input(number, input.name))};
    }
    writer().continue_invocation(number);
    try {
      add_stages(call.facts, inputs, settings_.stages == Stages::kFull, kStageMemory, writer());
    } catch (const NoStages& e) {
      writer().drop_stages();
      Stageless& of_kernel = stageless_[call.facts.kernel];
      if (of_kernel.count++ == 0) of_kernel.why = e.what();
    }
    writer().flush();
  }
}

}  // namespace msda::record
