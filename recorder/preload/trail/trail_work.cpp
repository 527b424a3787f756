// The rows of a trail that are no kernel launches: copies, memsets, graphs, and changes of memory.
#include <algorithm>
#include <cstring>
#include <span>
#include <utility>
#include <variant>

#include "recorder/preload/driver/change_finder.h"
#include "recorder/preload/driver/own_memory.h"
#include "recorder/preload/driver/saver.h"
#include "recorder/preload/trail/trail.h"

namespace msda::record {
namespace {

using Row = spool::TrailRow;

void append(std::vector<std::byte>& bytes, uint64_t word) {
  const auto* begin = reinterpret_cast<const std::byte*>(&word);
  bytes.insert(bytes.end(), begin, begin + sizeof word);
}

}  // namespace

// Appends a row for what an allocation held before its first use.
void Trail::note_first_use(const MemoryMap::Region& region, cuda::Stream stream) {
  if (!region.is_fresh) return;
  memory_.used(region);
  if (region.is_elsewhere) return;
  Row row;
  row.kind = Row::kFreshMemory;
  row.stream = stream_number(stream);
  const RowPart all{0, {region.address, region.bytes}};
  digests_.add(rows_.append(row, region.address), {&all, 1}, current_context(), stream);
  digests_.flush();
}

// Appends a row for what the host, which no hook sees, may have written since.
void Trail::note_host_memory(const PointerWord& pointer, cuda::Stream stream) {
  constexpr uint64_t kMost = 1 << 20;
  Row row;
  row.kind = Row::kHostMemory;
  row.stream = stream_number(stream);
  const uint64_t left = pointer.region.address + pointer.region.bytes - pointer.address;
  const RowPart part{0, {pointer.address, std::min(left, kMost)}};
  digests_.add(rows_.append(row, pointer.address), {&part, 1}, current_context(), stream);
  digests_.flush();
}

uint32_t Trail::entry_of_value(uint64_t value) {
  const auto [entry, is_new] = values_.try_emplace(value, 0);
  if (!is_new) return entry->second;
  std::vector<std::byte> bytes;
  append(bytes, value);
  return entry->second = rows_.parameters(bytes);
}

// Digests a small table that the host filled in here, because it may hold addresses, which differ from run to run.
// Returns false if it is no such table.
bool Trail::digest_on_host(const Work& work) {
  constexpr uint64_t kMost = 64 << 10;
  if (work.from_host == nullptr || work.written.ranges().size() != 1) return false;
  const DeviceRange& range = work.written.ranges().front();
  if (range.bytes > kMost) return false;
  memory_.enter();
  // The driver takes an address of the device for one of the host, but the host must not read there.
  const auto region = memory_.find(reinterpret_cast<uint64_t>(work.from_host));
  if (region && !region->is_of_host) return false;
  std::vector<std::byte> bytes(range.bytes);
  std::memcpy(bytes.data(), work.from_host, bytes.size());
  const LaunchWords words = words_of(std::move(bytes), memory_);
  if (words.place == 0) return false;
  rows_.add(*work.row, 0, record::digest_on_host(words.bytes.data(), words.bytes.size()), range.bytes);
  return true;
}

// A copy between two addresses does not say where these are. Memory that no device has must not be digested there: the
// kernel would fault.
void Trail::find_sides(Work& work) {
  const auto here = [&](const DeviceRange& range) {
    const auto region = memory_.find(range.address);
    return region && !region->is_elsewhere;
  };
  const auto is_of_host = [&](const DeviceRange& range) { return range.bytes > 0 && !memory_.find(range.address); };
  const auto& written = work.written.ranges();
  if (work.kind == Row::kCopyWithin && !written.empty()) {
    const bool is_in = is_of_host(work.read), is_out = is_of_host(written.front());
    if (is_out) work.kind = Row::kCopyOut;
    if (is_in && !is_out) work.kind = Row::kCopyIn;
    if (is_in && written.size() == 1 && written.front().bytes == work.read.bytes) {
      work.from_host = reinterpret_cast<const void*>(work.read.address);
    }
  }
  work.is_digested = !written.empty() && std::ranges::all_of(written, here);
  if (work.kind != Row::kCopyOut) return;
  work.written.none_written();
  work.is_digested = work.read.bytes > 0 && here(work.read);
}

void Trail::begin_work(Work& work) {
  if (is_captured(work.stream)) return;
  memory_.enter();
  find_sides(work);
  std::vector<DeviceRange> ranges = work.written.ranges();
  if (work.kind == Row::kCopyOut) ranges = {work.read};
  for (const DeviceRange& range : ranges) {
    if (const auto region = memory_.find(range.address)) note_first_use(*region, work.stream);
  }
  const auto source = work.read.bytes > 0 ? memory_.find(work.read.address) : std::nullopt;
  if (source) note_first_use(*source, work.stream);
  Row row;
  row.kind = work.kind;
  row.stream = stream_number(work.stream);
  if (work.value) row.parameters = entry_of_value(*work.value);
  uint64_t bytes = 0;
  for (const DeviceRange& range : ranges) bytes += range.bytes;
  const auto [caller, is_new] = callers_.try_emplace({work.kind, bytes}, Row::kNone);
  if (is_new) caller->second = caller_within_budget();
  row.caller = caller->second;
  order_.begin(work.stream, row.stream);
  if (order_.is_unordered(ranges)) row.flags |= Row::kIsUnordered;
  order_.writes(work.written.ranges());
  work.row = rows_.append(row, ranges.empty() ? 0 : ranges.front().address);
  rows_.awaits(*work.row);  // that it is given to the device
  const RowPart read{0, work.read};
  if (work.kind == Row::kCopyOut && work.is_digested)
    digests_.add(*work.row, {&read, 1}, current_context(), work.stream);
  // A copy from the host or to it may show the host that the stream is done.
  const bool is_within = work.kind == Row::kSet || work.kind == Row::kCopyWithin;
  if (!is_within || work.is_waited_for || !work.is_digested ||
      digests_.must_flush_before(ranges, current_context(), work.stream)) {
    digests_.flush();
  }
}

void Trail::before_work(Work& work) noexcept {
  locked([&] { begin_work(work); });
}

void Trail::after_work(Work& work, cuda::Result result) noexcept {
  if (!work.row) return;
  locked([&] {
    if (work.is_waited_for && work.kind != Row::kSet) order_.host_waited(stream_number(work.stream));
    if (result != cuda::kSuccess || !work.is_digested) {
      rows_.failed(*work.row);
    } else {
      std::vector<RowPart> parts;
      for (const DeviceRange& range : work.written.ranges())
        parts.push_back({static_cast<uint32_t>(parts.size()), range});
      if (!digest_on_host(work)) digests_.add(*work.row, parts, current_context(), work.stream);
      rows_.arrived(*work.row);
    }
    collect();
  });
}

// Appends a row for all that a graph does, as of one kernel with the parameters of all its kernels and with the places
// where its copies and memsets write.
void Trail::before_graph(cuda::GraphExec exec, cuda::Stream stream, Ticket& ticket) noexcept {
  locked([&] {
    if (is_captured(stream)) return;
    digests_.flush();
    ticket.recording = &recording();
    ticket.context = current_context();
    ticket.stream = stream;
    memory_.enter();
    const auto graph = graphs_.find(exec);
    if (graph == nullptr) return rows_.missed();
    std::vector<std::byte> bytes;
    uint64_t what = graph->steps.all.size();
    int64_t kernels = 0;
    for (const GraphStep& step : graph->steps.all) {
      if (!step.is_enabled) continue;
      if (const auto* kernel = std::get_if<KernelStep>(&step.what)) {
        bytes.insert(bytes.end(), kernel->bytes.begin(), kernel->bytes.end());
        bytes.resize((bytes.size() + 7) / 8 * 8);
        what = (what ^ function_of(ticket.context, kernel->function)->entry) * 0x9E3779B97F4A7C15 + kernel->grid[0];
        ++kernels;
      } else if (const auto* copy = std::get_if<CopyStep>(&step.what)) {
        append(bytes, range_of(copy->to, *copy).address);
      } else if (const auto* set = std::get_if<SetStep>(&step.what)) {
        append(bytes, range_of(*set).address);
      }
    }
    SurveyedKernel all;
    all.layout.kernel = "CUDA graph of " + std::to_string(kernels) + " kernels";
    Row row;
    row.kind = Row::kGraph;
    row.kernel = rows_.kernel(all);
    FoundLaunch launch(words_of(std::move(bytes), memory_));
    launch.row = row;
    launch.launches = &launches_of_graphs_[what];
    begin(launch, ticket);
  });
}

void Trail::allocated(const DeviceRange& range, bool is_of_host, bool is_fresh, bool is_mapped) noexcept {
  locked([&] { memory_.allocated(range, is_of_host, is_fresh, is_mapped); });
}

void Trail::host_memory_changed() noexcept {
  locked([&] { memory_.host_memory_changed(); });
}

void Trail::freed(cuda::DevicePointer address) noexcept {
  locked([&] {
    digests_.flush();
    memory_.freed(address);
  });
}

// The program may unmap memory as soon as it knows that its own work is done; the recorder's work comes behind that.
void Trail::unmapped(const DeviceRange& range) noexcept {
  locked([&] {
    digests_.flush();
    constexpr double kPatience = 2;  // seconds
    wait(kPatience);
    memory_.unmapped(range);
  });
}

void Trail::stream_created(cuda::Stream stream, unsigned flags) noexcept {
  constexpr unsigned kNonBlocking = 1;  // CU_STREAM_NON_BLOCKING
  locked([&] { order_.created(stream, (flags & kNonBlocking) != 0); });
}

void Trail::event_recorded(cuda::Event event, cuda::Stream stream) noexcept {
  locked([&] {
    digests_.flush();
    order_.recorded(event, stream_number(stream));
  });
}

void Trail::stream_waits(cuda::Stream stream, cuda::Event event) noexcept {
  locked([&] { order_.waits(stream_number(stream), event); });
}

void Trail::host_waited(cuda::Stream stream) noexcept {
  locked([&] { order_.host_waited(stream_number(stream)); });
}

void Trail::host_waited(cuda::Event event) noexcept {
  locked([&] { order_.host_waited(event); });
}

void Trail::host_waited(cuda::Context) noexcept {
  locked([&] { order_.host_waited(); });
}

void Trail::flush(std::chrono::seconds patience) noexcept {
  unnoticed([&] {
    if (const auto held = lock(patience)) digests_.flush();
  });
}

bool Trail::make_room() noexcept {
  bool made = false;
  locked([&] { made = space_.give_back(); });
  return made;
}

void Trail::context_ends(cuda::Context context) noexcept {
  locked([&] {
    digests_.give_up();
    for (const auto& launch : std::exchange(learning_, {})) {
      launch->has_failed = true;
      rows_.failed(launch->row);
    }
    rows_.collect();
    memory_.context_ends(context);
    space_.context_ends(context);
    forget_functions();
    order_ = StreamOrder();
    streams_.clear();
    graphs_.context_ends();
    Saver::instance().context_ends(context);
    ChangeFinder::instance().context_ends(context);
    cuda::forget_own(context);
  });
}

// The program ends. The driver may have ended already, or a signal may have interrupted it: it is not called.
void Trail::report() noexcept {
  try {
    const auto held = lock(std::chrono::seconds(1));
    if (!held) return;
    constexpr double kShortly = 0.5;  // seconds
    wait(kShortly);
    collect();
    rows_.give_up();
    rows_.deliver(/*is_last=*/rows_.next() > 0);  // what launched nothing has no recording
  } catch (...) {                                 // no memory
  }
}

}  // namespace msda::record
