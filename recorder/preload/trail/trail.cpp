#include "recorder/preload/trail/trail.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>
#include <utility>

#include "recorder/adapters/made_once.h"
#include "recorder/device/kernel_names.h"
#include "recorder/device/parameters_read.h"
#include "recorder/preload/driver/change_finder.h"
#include "recorder/preload/driver/saver.h"
#include "recorder/preload/session/labels.h"
#include "recorder/preload/session/recording.h"
#include "recorder/preload/session/warn.h"
#include "recorder/preload/survey/copy_space.h"
#include "recorder/preload/survey/foreign_memory.h"

namespace msda::record {
namespace {

using Row = spool::TrailRow;

}  // namespace

Trail& Trail::instance() {
  static constinit MadeOnce<Trail> trail;
  return trail.get([] { return std::unique_ptr<Trail>(new Trail); });
}

Trail::Trail() : space_(config().survey_share) {
  pthread_atfork(nullptr, nullptr, [] { instance().forget_in_child(); });
  std::atexit([] { instance().flush(std::chrono::seconds(1)); });  // the driver, which was first, ends after that
}

// The driver does not work in a child. Nothing is destroyed, because another thread of the parent may have been
// changing it.
void Trail::forget_in_child() {
  new (&mutex_) std::timed_mutex;
  new (&memory_) MemoryMap;
  new (&rows_) TrailRows;
  new (&digests_) RowDigests(rows_);
  new (&space_) LearningSpace(config().survey_share);
  new (&learning_) decltype(learning_);
  new (&functions_) decltype(functions_);
  new (&known_code_) decltype(known_code_);
  new (&memo_) LaunchMemo;
  new (&launches_of_graphs_) decltype(launches_of_graphs_);
  new (&graphs_) KnownGraphs;
  new (&order_) StreamOrder;
  new (&streams_) decltype(streams_);
  new (&values_) decltype(values_);
  new (&callers_) decltype(callers_);
}

// Takes the lock. A launch that finds it held for long gets no row: its thread must go on, as others may wait for it.
std::unique_lock<std::timed_mutex> Trail::lock(std::chrono::seconds patience) {
  std::unique_lock held(mutex_, std::try_to_lock);  // which looks at no clock
  if (!held) static_cast<void>(held.try_lock_for(patience));
  return held;
}

bool Trail::has_driver() {
  if (has_driver_) return *has_driver_;
  const cuda::Driver& driver = cuda::driver();
  const char* lacks = driver.missing;
  const std::pair<const char*, bool> more[] = {{"cuMemGetInfo", driver.memory_info != nullptr},
                                               {"cuMemFree", driver.free != nullptr},
                                               {"cuPointerGetAttributes", driver.pointer_attributes != nullptr}};
  for (const auto& [name, has] : more) {
    if (!has && lacks == nullptr) lacks = name;
  }
  if (lacks != nullptr) warn(std::string("this CUDA driver lacks ") + lacks + "; no trail is recorded");
  has_driver_ = lacks == nullptr;
  return *has_driver_;
}

const std::shared_ptr<Trail::Function>& Trail::function_of(cuda::Context context, cuda::Function function) {
  if (std::exchange(unloads_, unloads()) != unloads()) forget_functions();
  auto& known = functions_[{context, function}];
  if (known != nullptr) return known;
  const RelaxedCapture relaxed;
  known = std::make_shared<Function>();
  known->kernel = examine(function);
  known->entry = rows_.kernel(known->kernel);
  known->draws_random_numbers = draws_random_numbers(known->kernel.layout.kernel);
  // Data decide where atomics go; and of collectives and of unknown code nothing is known.
  const auto atomics = known->kernel.facts.integers.find("float_atomics");
  known->may_write_anywhere = atomics == known->kernel.facts.integers.end() || atomics->second != 0;
  const auto image = std::exchange(known->kernel.image, nullptr);  // it is large
  if (image == nullptr) return known;
  const auto [same, is_new] = known_code_.try_emplace(known->entry, known);
  if (!is_new) return known = same->second;
  const auto& parameters = known->kernel.layout.parameters;
  const size_t bytes = parameters.empty() ? 0 : parameters.back().offset + parameters.back().size;
  const auto is_read =
      parameters_read_by(image->bytes, known->kernel.layout.kernel, known->kernel.facts.architecture, bytes);
  for (const bool is_byte_read : is_read)
    known->read.push_back(std::byte{static_cast<unsigned char>(is_byte_read ? 0xFF : 0)});
  return known;
}

// Another function may get the handle of one whose code was unloaded. What was learnt of known code stays.
void Trail::forget_functions() {
  memo_.clear();  // first: it refers to them
  functions_.clear();
}

bool Trail::is_wanted(Function& function, Recording& ours) {
  const std::string& kernel = function.kernel.layout.kernel;
  if (!function.is_wanted) function.is_wanted = !kernel.empty() && ours.wants(kernel.c_str());
  return function.is_wanted;
}

uint16_t Trail::stream_number(cuda::Context context, cuda::Stream stream) {
  return streams_.try_emplace({context, stream}, static_cast<uint16_t>(streams_.size())).first->second;
}

uint16_t Trail::stream_number(cuda::Stream stream) { return stream_number(current_context(), stream); }

cuda::Context Trail::current_context() {
  cuda::Context context = nullptr;
  cuda::driver().current_context(&context);
  return context;
}

bool Trail::is_captured(cuda::Stream stream) {
  int capturing = 0;
  return cuda::driver().is_capturing(stream, &capturing) != cuda::kSuccess || capturing != 0;
}

// Looking for a caller takes longer than a launch. The budget grows with the time that passes, and what is not used is
// kept up to a limit: a training step in which each launch is new must not use up what the first minute left.
uint32_t Trail::caller_within_budget() {
  using std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kMost{150};
  constexpr int kShare = 50;  // a fiftieth of the time
  const auto now = steady_clock::now();
  const steady_clock::duration most = kMost;
  for_callers_ = std::min(most, for_callers_ + (now - asked_for_caller_) / kShare);
  asked_for_caller_ = now;
  if (for_callers_ < steady_clock::duration::zero()) return Row::kNone;
  const uint32_t caller = rows_.caller(caller_of_launch(), current_label());
  for_callers_ -= steady_clock::now() - now;
  return caller;
}

// Appends rows for memory that the launch is the first to reach, or that the host may have written.
void Trail::note_memory(FoundLaunch& launch, cuda::Stream stream) {
  const RelaxedCapture relaxed;
  bool has_host_memory = false;
  for (const PointerWord& pointer : launch.words.pointers) {
    note_first_use(pointer.region, stream);
    if (pointer.region.is_of_host) note_host_memory(pointer, stream);
    has_host_memory |= pointer.region.is_of_host;
  }
  for (PointerWord& pointer : launch.words.pointers) pointer.region.is_fresh = false;
  launch.has_notes = has_host_memory;
}

void Trail::find_variant(FoundLaunch& launch, uint64_t row) {
  LaunchVariant& variant = launch.launches->variant_of(launch.words, row);
  if (launch.launches->is_new()) {
    variant.parameters = rows_.parameters(launch.words.bytes);
    variant.caller = caller_within_budget();
  }
  launch.variant = &variant;
  launch.changes = FunctionLaunches::changes_of(variant, launch.words);
}

// Appends the row of a launch that is about to be given to the device. `changes` are its own, if they are not those of
// the launch that was found.
void Trail::begin(FoundLaunch& launch, Ticket& ticket, const ChangedWords* changes) {
  if (launch.has_notes) note_memory(launch, ticket.stream);
  const uint64_t next = rows_.next();
  if (launch.variant == nullptr) find_variant(launch, next);
  LaunchVariant& variant = *launch.variant;
  const WrittenParts* const parts = variant.parts_for(next);
  if (parts != nullptr && !variant.parts_entry) variant.parts_entry = rows_.parts(text_of(*parts));
  Row row = launch.row;
  row.parameters = variant.parameters;
  row.caller = variant.caller;
  row.stream = stream_number(ticket.context, ticket.stream);
  if (parts != nullptr && variant.is_sparse()) row.flags |= Row::kIsSparse;
  if (parts != nullptr) row.parts = *variant.parts_entry;
  ticket.is_known = parts != nullptr;
  if (ticket.is_known) {
    if (launch.writes == nullptr || launch.writes->parts != row.parts) find_writes(launch, *parts, row.parts);
    ticket.writes = launch.writes;
  }
  if (is_unordered(launch, ticket, row.stream)) row.flags |= Row::kIsUnordered;
  if (!ticket.is_known || launch.may_write_anywhere ||
      digests_.must_flush_before(ticket.writes->plain, ticket.context, ticket.stream)) {
    digests_.flush();
  }
  ticket.row = rows_.append(row, launch.words.place);
  rows_.awaits(next);  // that it is given to the device
  for (const auto& [offset, word] : changes != nullptr ? *changes : launch.changes) rows_.changed_word(offset, word);
  if (parts != nullptr) return;
  const RelaxedCapture relaxed;
  memory_.enter();
  if (begin_learning(launch.words, variant.bytes_to_compare(), ticket) && ticket.learns != nullptr) {
    variant.learn(ticket.learns);
  }
}

// Returns the memory from each address to the next one, or to the end of the allocation. What a launch writes before
// its addresses is not seen.
std::vector<Trail::Piece> Trail::pieces_of(const LaunchWords& words, uint64_t most) {
  std::map<uint64_t, uint32_t> begins;  // offsets of pointers, by where their pieces begin
  std::map<uint64_t, uint64_t> ends;    // of allocations, by where these begin
  for (const PointerWord& pointer : words.pointers) {
    const MemoryMap::Region& region = pointer.region;
    if (region.is_of_host || region.is_elsewhere) continue;
    if (ForeignMemory::instance().has({region.address, region.bytes})) continue;
    begins.try_emplace(unit_of(pointer.address), pointer.offset);
    uint64_t& end = ends[unit_of(region.address)];
    end = std::max(end, memory_.end_of(region, pointer.address + most));
  }
  std::vector<Piece> pieces;
  for (auto piece = begins.begin(); piece != begins.end(); ++piece) {
    const auto& [begin, offset] = *piece;
    uint64_t end = std::prev(ends.upper_bound(begin))->second;
    if (const auto next = std::next(piece); next != begins.end()) end = std::min(end, next->first);
    pieces.push_back({offset, {begin, std::min(most, end - begin)}, end - begin > most});
  }
  return pieces;
}

// Returns whether it reaches memory that other streams' work writes, with nothing that orders the two. A launch that is
// not known may write at each of its addresses.
bool Trail::is_unordered(const FoundLaunch& launch, const Ticket& ticket, uint16_t stream) {
  order_.begin(ticket.stream, stream);
  bool is_unordered = order_.is_unordered(launch.reaches);
  if (ticket.writes != nullptr) is_unordered |= order_.is_unordered(ticket.writes->plain);
  order_.writes(ticket.writes != nullptr ? ticket.writes->plain : launch.reaches);
  return is_unordered;
}

// Copies what the launch reaches. Returns false if there is no room.
bool Trail::begin_learning(const LaunchWords& words, uint64_t most, Ticket& ticket) {
  auto learns = std::make_shared<LearntLaunch>();
  learns->row = *ticket.row;
  uint64_t bytes = 0;
  for (const auto& [pointer, range, is_cut] : pieces_of(words, most)) {
    learns->pointers.push_back(pointer);
    learns->cut.push_back(is_cut ? range.bytes : 0);
    ticket.pieces.push_back({range.address, bytes, range.bytes});
    bytes += aligned(range.bytes);
  }
  ticket.is_known = ticket.pieces.empty();  // it reaches nothing
  if (ticket.is_known) return true;
  const cuda::DevicePointer copies = space_.reserve(bytes, ticket.stream);
  for (SavedPiece& piece : ticket.pieces) piece.copy += copies;
  if (copies == 0 || !Saver::instance().copy(ticket.pieces, ticket.stream)) return false;
  ticket.learns = std::move(learns);
  return true;
}

// Makes new KnownWrites, because a launch of another thread may be about to digest the old ones, of fewer parts.
void Trail::find_writes(FoundLaunch& launch, const WrittenParts& parts, uint32_t entry) {
  const RelaxedCapture relaxed;
  memory_.enter();
  const uint64_t passing = memory_.passing();
  auto writes = std::make_shared<KnownWrites>();
  writes->parts = entry;
  writes->ranges = ranges_of(parts, launch.words);
  for (const RowPart& part : writes->ranges) writes->plain.push_back(part.range);
  launch.writes = std::move(writes);
  launch.is_passing |= memory_.passing() != passing;
}

// Returns where the parts are allocated; another launch of this variant may have less memory.
std::vector<RowPart> Trail::ranges_of(const WrittenParts& parts, const LaunchWords& words) {
  std::vector<RowPart> ranges;
  for (const WrittenPart& part : parts) {
    const auto pointer = std::ranges::find(words.pointers, part.pointer, &PointerWord::offset);
    if (pointer == words.pointers.end() || pointer->region.is_elsewhere) continue;
    const uint64_t base = unit_of(pointer->address), begin = base + down(part.begin), all = base + up(part.end);
    const uint64_t end = std::min(all, memory_.end_of(pointer->region, all)), unit = unit_of(begin);
    if (begin < end) ranges.push_back({part.pointer, {unit, end - unit}, static_cast<uint8_t>(begin - unit)});
  }
  return ranges;
}

// Looks up a launch that was not seen before, or that may have changed. Most of its parameters are often those of the
// kernel's last launch.
std::shared_ptr<FoundLaunch> Trail::look_up(const Launched& launched, Function& function, uint64_t words_version) {
  const RelaxedCapture relaxed;
  memory_.enter();
  const auto parameters = memo_.parameters();
  const auto [alike, earlier_parameters] = memo_.find_alike(words_version);
  const EarlierWords earlier{earlier_parameters, alike != nullptr ? &alike->words : nullptr};
  auto launch = std::make_shared<FoundLaunch>(words_of({parameters.begin(), parameters.end()}, memory_, earlier));
  launch->may_write_anywhere = function.may_write_anywhere;
  if (alike != nullptr) {
    launch->row = alike->row;
    launch->launches = alike->launches;
    if (launch->words.bytes == alike->words.bytes) {  // only addresses differ
      launch->variant = alike->variant;
      launch->changes = alike->changes;
    }
    return launch;
  }
  launch->row.kernel = function.entry;
  launch->row.configuration = rows_.configuration(launched);
  launch->launches =
      &function.launches.try_emplace(launch->row.configuration, function.draws_random_numbers).first->second;
  return launch;
}

// Returns false if no launch is known that differs from the coming one only in words that decide nothing.
bool Trail::begin_of_kind(uint64_t words_version, Ticket& ticket) {
  const auto known = memo_.find_of_kind(words_version);
  if (known == nullptr || known->is_passing) return false;
  ChangedWords changes;
  {
    const RelaxedCapture relaxed;
    memory_.enter();
    changes = FunctionLaunches::changes_of(*known->variant, memo_.parameters(), memory_);
  }
  begin(*known, ticket, &changes);
  return true;
}

void Trail::before_launch(const Launched& launched, Ticket& ticket) noexcept {
  unnoticed([&] {
    const auto held = lock();
    ticket.recording = &recording();
    if (!held || ticket.recording->is_over() || !has_driver() || is_captured(launched.stream)) return;
    ticket.context = current_context();
    ticket.stream = launched.stream;
    const auto& known_function = function_of(ticket.context, launched.function);
    Function& function = *known_function;
    if (!is_wanted(function, *ticket.recording)) return digests_.flush();
    memo_.enter(launched, function.kernel.layout, function.read, &known_function);
    const uint64_t version = version_of_words(memory_);  // before: the look-up itself may change it
    const auto known = memo_.find(version);
    if (known == nullptr && begin_of_kind(version, ticket)) return;
    const auto launch = known != nullptr ? known : look_up(launched, function, version);
    begin(*launch, ticket);
    if (launch->is_passing) {
      memo_.forget();
    } else if (known == nullptr) {
      memo_.keep(launch, version);
    }
  });
}

void Trail::after_launch(Ticket& ticket, cuda::Result result) noexcept {
  if (!ticket.row) return;
  unnoticed([&] {
    const auto held = lock();
    if (!held || ticket.recording->is_over()) return;
    std::optional<RelaxedCapture> relaxed;
    if (ticket.learns != nullptr) relaxed.emplace();
    const uint64_t row = *ticket.row;
    const auto end = [&](bool is_digested) {
      if (is_digested) return rows_.arrived(row);
      rows_.failed(row);
      if (ticket.learns != nullptr) ticket.learns->has_failed = true;
    };
    if (result != cuda::kSuccess) {
      end(false);
    } else if (ticket.is_known) {
      if (ticket.writes != nullptr) digests_.add(row, ticket.writes->ranges, ticket.context, ticket.stream);
      end(true);
    } else {
      if (ticket.learns != nullptr) {
        ticket.learns->changes = ChangeFinder::instance().start(ticket.pieces, memory_.hull(), ticket.stream);
      }
      if (ticket.learns != nullptr && ticket.learns->changes) {
        learning_.push_back(ticket.learns);  // the row waits for it
      } else {
        end(false);
      }
    }
    constexpr uint64_t kSeldom = 8;  // looking takes longer than noting a row
    if (row % kSeldom == 0 || ticket.learns != nullptr) collect();
  });
}

// Waits until the device has done all that it was given. Returns false if that takes longer.
bool Trail::wait(double seconds) {
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    collect_found();
    if (!digests_.are_under_way() && learning_.empty()) return true;
    if (std::chrono::steady_clock::now() - begin > std::chrono::duration<double>(seconds)) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

// Takes over what the device has finished, without waiting for more.
void Trail::collect_found() {
  digests_.collect();
  std::erase_if(learning_, [this](const auto& launch) {
    if (!launch->is_found()) return false;
    for (size_t i = 0; i < launch->found.size(); ++i) {
      const FoundInPiece& found = launch->found[i];
      if (found.changed == 0) continue;
      rows_.add(launch->row, launch->pointers[i], {found.first_sum, found.second_sum},
                up(found.end) - down(~found.complement_of_begin));
    }
    rows_.learnt(launch->row, rows_.parts(text_of(launch->parts())), launch->is_sparse());
    rows_.arrived(launch->row);
    return true;
  });
}

void Trail::collect() {
  collect_found();
  rows_.collect();
  constexpr std::chrono::seconds kOften{1};
  const auto now = std::chrono::steady_clock::now();
  if (!rows_.has_many() && now - delivered_ < kOften) return;
  delivered_ = now;
  const RelaxedCapture relaxed;
  rows_.deliver();
}

}  // namespace msda::record
