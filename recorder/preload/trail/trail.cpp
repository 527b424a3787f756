#include "recorder/preload/trail/trail.h"

#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <thread>
#include <utility>

#include "recorder/adapters/made_once.h"
#include "recorder/device/parameters_read.h"
#include "recorder/device/random_numbers.h"
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

constexpr uint64_t down(uint64_t address) { return address / kChangedUnit * kChangedUnit; }
constexpr uint64_t up(uint64_t address) { return down(address + kChangedUnit - 1); }

}  // namespace

Trail& Trail::instance() {
  static constinit MadeOnce<Trail> trail;
  return trail.get([] { return std::unique_ptr<Trail>(new Trail); });
}

Trail::Trail() : space_(config().survey_share) {
  pthread_atfork(nullptr, nullptr, [] { instance().forget_in_child(); });
}

// The driver works in no child; nothing is destroyed, as another thread of the parent may have been changing it.
void Trail::forget_in_child() {
  new (&mutex_) std::timed_mutex;
  new (&memory_) MemoryMap;
  new (&rows_) TrailRows;
  new (&digests_) RowDigests(rows_);
  new (&space_) LearningSpace(config().survey_share);
  new (&learning_) decltype(learning_);
  new (&functions_) decltype(functions_);
  new (&launches_of_graphs_) decltype(launches_of_graphs_);
  new (&graphs_) KnownGraphs;
  new (&order_) StreamOrder;
  new (&streams_) decltype(streams_);
  new (&values_) decltype(values_);
  new (&callers_) decltype(callers_);
}

// A launch that finds the lock held for long has no row: its thread must go on, as somebody may wait for it.
std::unique_lock<std::timed_mutex> Trail::lock() {
  constexpr std::chrono::seconds kPatience{10};
  std::unique_lock held(mutex_, std::try_to_lock);  // which looks at no clock
  if (!held) static_cast<void>(held.try_lock_for(kPatience));
  return held;
}

bool Trail::has_driver() {
  if (has_driver_) return *has_driver_;
  const cuda::Driver& driver = cuda::driver();
  const char* lacks = driver.complete ? nullptr : driver.missing;
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

Trail::Function& Trail::function_of(cuda::Context context, cuda::Function function) {
  if (std::exchange(unloads_, unloads()) != unloads()) functions_.clear();
  auto& known = functions_[{context, function}];
  if (known != nullptr) return *known;
  known = std::make_unique<Function>();
  known->kernel = examine(function);
  known->entry = rows_.kernel(known->kernel);
  known->draws_random_numbers = tells_of_random_numbers(known->kernel.layout.kernel);
  const auto& parameters = known->kernel.layout.parameters;
  const size_t bytes = parameters.empty() ? 0 : parameters.back().offset + parameters.back().size;
  if (known->kernel.image != nullptr) {
    const auto is_read = parameters_read_by(known->kernel.image->bytes, known->kernel.layout.kernel,
                                            known->kernel.facts.architecture, bytes);
    for (const bool one : is_read) known->read.push_back(std::byte{static_cast<unsigned char>(one ? 0xFF : 0)});
  }
  return *known;
}

// The bytes of its parameters that the kernel reads; the others are 0.
std::vector<std::byte> Trail::read_parameters(const Launched& launched, const Function& function) {
  auto bytes = parameter_bytes(launched, function.kernel.layout).value_or(std::vector<std::byte>());
  const size_t count = std::min(bytes.size(), function.read.size());
  for (size_t i = 0; i < count; ++i) bytes[i] &= function.read[i];
  return bytes;
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

// To look for it takes longer than a launch: it may take a thirtieth of the time.
uint32_t Trail::caller_within_budget() {
  using std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kAtFirst{150};
  const auto now = steady_clock::now();
  if (for_callers_ > kAtFirst + (now - begun_) / 30) return Row::kNone;
  const uint32_t caller = rows_.caller(caller_of_launch(), current_label());
  for_callers_ += steady_clock::now() - now;
  return caller;
}

// The row of a launch that is about to be given to the device.
void Trail::begin(Begun launch, Ticket& ticket) {
  for (const PointerWord& pointer : launch.words.pointers) {
    note_first_use(pointer.region, launch.stream);
    if (pointer.region.is_of_host) note_host_memory(pointer, launch.stream);
  }
  const uint64_t next = rows_.next();
  LaunchVariant& variant = launch.known.variant_of(launch.words, next);
  if (launch.known.is_new()) {
    variant.parameters = rows_.parameters(launch.words.bytes);
    variant.caller = caller_within_budget();
  }
  const WrittenParts* const parts = variant.parts_for(next);
  if (parts != nullptr && !variant.parts_entry) variant.parts_entry = rows_.parts(text_of(*parts));
  launch.row.parameters = variant.parameters;
  launch.row.caller = variant.caller;
  launch.row.stream = stream_number(ticket.context, launch.stream);
  if (parts != nullptr && variant.is_sparse()) launch.row.flags |= Row::kIsSparse;
  if (parts != nullptr) launch.row.parts = *variant.parts_entry;
  ticket.stream = launch.stream;
  ticket.is_known = parts != nullptr;
  if (ticket.is_known) ticket.writes = ranges_of(*parts, launch.words);
  if (is_unordered(launch, ticket)) launch.row.flags |= Row::kIsUnordered;
  ticket.row = rows_.append(launch.row, launch.words.place);
  rows_.awaits(next);  // that it is given to the device
  for (const auto& [offset, word] : FunctionLaunches::changes_of(variant, launch.words)) {
    rows_.changed_word(offset, word);
  }
  if (parts != nullptr || !begin_learning(launch.words, variant.bytes_to_compare(), ticket)) return;
  if (ticket.learns != nullptr) variant.learn(ticket.learns);
}

// Memory from each address to the next one, or to the end of the allocation. What a launch writes before its addresses
// is not seen.
std::vector<Trail::Piece> Trail::pieces_of(const LaunchWords& words, uint64_t most) {
  std::map<uint64_t, uint32_t> begins;  // offsets of pointers, by where their pieces begin
  std::map<uint64_t, uint64_t> ends;    // of allocations, by where these begin
  for (const PointerWord& pointer : words.pointers) {
    const MemoryMap::Region& region = pointer.region;
    if (region.is_of_host || region.is_elsewhere) continue;
    if (ForeignMemory::instance().has({region.address, region.bytes})) continue;
    begins.try_emplace(down(pointer.address), pointer.offset);
    uint64_t& end = ends[down(region.address)];
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

// Whether it reaches memory that other streams' work writes, with nothing that orders the two. Of a launch that is not
// known each address may be one at which it writes.
bool Trail::is_unordered(const Begun& launch, const Ticket& ticket) {
  constexpr uint64_t kLittle = 16;
  std::vector<DeviceRange> reaches, writes;
  for (const PointerWord& pointer : launch.words.pointers) reaches.push_back({pointer.address, kLittle});
  for (const auto& [pointer, range] : ticket.writes) writes.push_back(range);
  reaches.insert(reaches.end(), writes.begin(), writes.end());
  order_.begin(launch.stream, launch.row.stream);
  const bool is_unordered = order_.is_unordered(reaches);
  order_.writes(ticket.is_known ? writes : reaches);
  return is_unordered;
}

// Copies what the launch reaches. False if there is no room.
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

// Where the parts are allocated; another launch of the kind may have less memory.
std::vector<RowPart> Trail::ranges_of(const WrittenParts& parts, const LaunchWords& words) {
  std::vector<RowPart> ranges;
  for (const WrittenPart& part : parts) {
    const auto pointer = std::ranges::find(words.pointers, part.pointer, &PointerWord::offset);
    if (pointer == words.pointers.end() || pointer->region.is_elsewhere) continue;
    const uint64_t base = down(pointer->address), begin = base + down(part.begin), all = base + up(part.end);
    const uint64_t end = std::min(all, memory_.end_of(pointer->region, all));
    if (begin < end) ranges.push_back({part.pointer, {begin, end - begin}});
  }
  return ranges;
}

void Trail::before_launch(const Launched& launched, Ticket& ticket) noexcept {
  by_itself([&] {
    const auto held = lock();
    ticket.recording = &recording();
    if (!held || ticket.recording->is_over() || !has_driver()) return;
    if (is_captured(launched.stream)) return;
    ticket.context = current_context();
    memory_.enter();
    Function& function = function_of(ticket.context, launched.function);
    const Layout& layout = function.kernel.layout;
    if (layout.kernel.empty()) return;
    if (!function.is_wanted) function.is_wanted = ticket.recording->wants(layout.kernel.c_str());
    if (!function.is_wanted) return;
    const LaunchWords words = words_of(read_parameters(launched, function), memory_);
    Row row;
    row.kernel = function.entry;
    row.configuration = rows_.configuration(launched);
    auto& known = function.launches.try_emplace(row.configuration, function.draws_random_numbers).first->second;
    begin({row, known, words, launched.stream}, ticket);
  });
}

void Trail::after_launch(Ticket& ticket, cuda::Result result) noexcept {
  if (!ticket.row) return;
  by_itself([&] {
    const auto held = lock();
    if (!held || ticket.recording->is_over()) return;
    const uint64_t row = *ticket.row;
    const auto end = [&](bool is_digested) {
      if (is_digested) return rows_.arrived(row);
      rows_.failed(row);
      if (ticket.learns != nullptr) ticket.learns->has_failed = true;
    };
    if (result != cuda::kSuccess) {
      end(false);
    } else if (ticket.is_known) {
      digests_.start(row, ticket.writes, ticket.stream);
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
    collect();
  });
}

// Until the device has done all that it was given. False if that takes longer.
bool Trail::wait(double seconds) {
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    collect_found();
    if (!digests_.are_under_way() && learning_.empty()) return true;
    if (std::chrono::steady_clock::now() - begin > std::chrono::duration<double>(seconds)) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

// Takes over what the device has done, without waiting for more.
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
  rows_.deliver();
}

}  // namespace msda::record
