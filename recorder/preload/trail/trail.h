// The trail of a program: a row for each launch, copy and memset, with a digest of what it wrote (docs/trail.md). Every
// hook calls these functions. None throws, and none waits for the device, except as written_parts.h says.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "recorder/preload/driver/own_calls.h"
#include "recorder/preload/launch/launch.h"
#include "recorder/preload/session/config.h"
#include "recorder/preload/session/recording.h"
#include "recorder/preload/survey/known_graphs.h"
#include "recorder/preload/survey/surveyed_kernel.h"
#include "recorder/preload/trail/launch_memo.h"
#include "recorder/preload/trail/learning_space.h"
#include "recorder/preload/trail/memory_map.h"
#include "recorder/preload/trail/row_digests.h"
#include "recorder/preload/trail/stream_order.h"
#include "recorder/preload/trail/trail_rows.h"
#include "recorder/preload/trail/written_parts.h"
#include "recorder/preload/trail/written_ranges.h"

namespace msda::record {

class Trail {
 public:
  static Trail& instance();
  static bool is_wanted() noexcept { return config().trail; }

  // What before_launch() passes to after_launch().
  struct Ticket {
    Recording* recording = nullptr;  // this process'; looking it up takes a system call
    cuda::Context context = nullptr;
    cuda::Stream stream = nullptr;
    std::optional<uint64_t> row;
    std::shared_ptr<KnownWrites> writes;   // what is digested; null: nothing
    std::shared_ptr<LearntLaunch> learns;  // or what is to be found, in these pieces
    std::vector<SavedPiece> pieces;
    bool is_known = false;
  };
  void before_launch(const Launched& launched, Ticket& ticket) noexcept;
  void before_graph(cuda::GraphExec exec, cuda::Stream stream, Ticket& ticket) noexcept;
  void after_launch(Ticket& ticket, cuda::Result result) noexcept;  // of a kernel, or of a graph
  KnownGraphs& graphs() { return graphs_; }

  // A copy, or a memset.
  struct Work {
    explicit Work(spool::TrailRow::Kind what = spool::TrailRow::kCopyIn) : kind(what) {}
    spool::TrailRow::Kind kind;
    WrittenRanges written;
    DeviceRange read{};               // of a copy to the host: what it reads
    const void* from_host = nullptr;  // where a plain copy from the host begins
    std::optional<uint64_t> value;    // to which memory is set
    cuda::Stream stream = nullptr;
    bool is_waited_for = true;  // by the function that does it
    bool is_digested = false;   // the current device can read what it writes, or reads
    std::optional<uint64_t> row;
  };
  // Handles a copy of rows or boxes.
  template <class Copy>
  static Work work_of(const Copy& copy);
  void before_work(Work& work) noexcept;
  void after_work(Work& work, cuda::Result result) noexcept;

  void allocated(const DeviceRange& range, bool is_of_host, bool is_fresh, bool is_mapped) noexcept;
  void host_memory_changed() noexcept;  // some was pinned
  void freed(cuda::DevicePointer address) noexcept;
  void unmapped(const DeviceRange& range) noexcept;
  // What orders streams.
  void stream_created(cuda::Stream stream, unsigned flags) noexcept;
  void event_recorded(cuda::Event event, cuda::Stream stream) noexcept;
  void stream_waits(cuda::Stream stream, cuda::Event event) noexcept;
  void host_waited(cuda::Stream stream) noexcept;
  void host_waited(cuda::Event event) noexcept;
  void host_waited(cuda::Context = nullptr) noexcept;  // for all
  // Called before anything that lets others know that the device is done, and then change what it wrote.
  void flush(std::chrono::seconds patience = std::chrono::seconds(10)) noexcept;
  // Frees the trail's own memory, because an allocation of the program's failed. Returns false if it has none.
  bool make_room() noexcept;
  void context_ends(cuda::Context context) noexcept;
  // Delivers what is known. A signal handler may call it.
  void report() noexcept;

 private:
  Trail();
  struct Function {
    SurveyedKernel kernel;
    uint32_t entry = 0;
    std::vector<std::byte> read;  // 0 for each byte of its parameters that it does not read; empty: it reads all
    bool draws_random_numbers = false;
    bool may_write_anywhere = true;                 // not only where earlier launches wrote
    bool is_wanted = false;                         // --kernel selects it
    std::map<uint32_t, FunctionLaunches> launches;  // by configuration
  };
  // Takes the lock, but does not wait so long that the program would stop.
  std::unique_lock<std::timed_mutex> lock(std::chrono::seconds patience = std::chrono::seconds(10));
  template <class Change>
  void locked(Change&& change) noexcept;
  // The reference is to the handle's entry, which distinguishes contexts.
  const std::shared_ptr<Function>& function_of(cuda::Context context, cuda::Function function);
  void forget_functions();
  bool is_wanted(Function& function, Recording& ours);
  std::shared_ptr<FoundLaunch> look_up(const Launched& launched, Function& function, uint64_t words_version);
  uint16_t stream_number(cuda::Context context, cuda::Stream stream);
  uint16_t stream_number(cuda::Stream stream);  // of the current context
  bool is_captured(cuda::Stream stream);
  static cuda::Context current_context();
  void begin(FoundLaunch& launch, Ticket& ticket, const ChangedWords* changes = nullptr);
  bool begin_of_kind(uint64_t words_version, Ticket& ticket);
  void note_memory(FoundLaunch& launch, cuda::Stream stream);
  void find_variant(FoundLaunch& launch, uint64_t row);
  bool begin_learning(const LaunchWords& words, uint64_t most, Ticket& ticket);
  struct Piece {
    uint32_t pointer;
    DeviceRange range;
    bool is_cut;  // memory goes on
  };
  std::vector<Piece> pieces_of(const LaunchWords& words, uint64_t most);
  uint32_t caller_within_budget();
  void find_writes(FoundLaunch& launch, const WrittenParts& parts, uint32_t entry);
  std::vector<RowPart> ranges_of(const WrittenParts& parts, const LaunchWords& words);
  bool is_unordered(const FoundLaunch& launch, const Ticket& ticket, uint16_t stream);
  void note_first_use(const MemoryMap::Region& region, cuda::Stream stream);
  void note_host_memory(const PointerWord& pointer, cuda::Stream stream);
  void find_sides(Work& work);
  void begin_work(Work& work);
  bool digest_on_host(const Work& work);
  uint32_t entry_of_value(uint64_t value);
  void collect();
  void collect_found();
  bool wait(double seconds);
  void forget_in_child();

  // Returns whether the driver has all functions that are needed. If not, warns the program once.
  bool has_driver();

  std::timed_mutex mutex_;  // guards the members below
  std::optional<bool> has_driver_;
  MemoryMap memory_;
  TrailRows rows_;
  RowDigests digests_{rows_};
  LearningSpace space_;
  StreamOrder order_;
  std::vector<std::shared_ptr<LearntLaunch>> learning_;  // whose rows wait for what they changed
  uint64_t unloads_ = 0;
  struct HashOfHandles {
    size_t operator()(const std::pair<cuda::Context, cuda::Function>& handles) const {
      return std::hash<const void*>()(handles.first) * 31 + std::hash<const void*>()(handles.second);
    }
  };
  // Until code is unloaded.
  std::unordered_map<std::pair<cuda::Context, cuda::Function>, std::shared_ptr<Function>, HashOfHandles> functions_;
  LaunchMemo memo_;                                           // of theirs
  std::map<uint32_t, std::shared_ptr<Function>> known_code_;  // by its entry
  std::map<uint64_t, FunctionLaunches> launches_of_graphs_;   // by what is in them
  KnownGraphs graphs_;
  std::map<std::pair<cuda::Context, cuda::Stream>, uint16_t> streams_;
  std::map<uint64_t, uint32_t> values_;                   // entries of parameters
  std::map<std::pair<int, uint64_t>, uint32_t> callers_;  // of copies, by kind and size
  std::chrono::steady_clock::time_point delivered_{}, asked_for_caller_{};
  std::chrono::steady_clock::duration for_callers_{};  // left
};

template <class Copy>
Trail::Work Trail::work_of(const Copy& copy) {
  Work work;
  WrittenRanges read;
  cuda::for_each_layer(copy, copy.from, [&](uint64_t address, uint64_t bytes, uint64_t pitch, uint64_t rows) {
    read.written_rows({address, bytes}, pitch, rows);
  });
  if (!read.ranges().empty()) work.read = read.ranges().front();
  if (copy.to.type == cuda::MemoryType::kHost) {
    work.kind = spool::TrailRow::kCopyOut;
  } else if (copy.from.type != cuda::MemoryType::kHost) {
    work.kind = spool::TrailRow::kCopyWithin;
  }
  return work;
}

template <class Change>
void Trail::locked(Change&& change) noexcept {
  by_itself([&] {
    const auto held = lock();
    if (held && !recording().is_over() && has_driver()) change();
  });
}

// Returns whether this thread is doing the program's work, and that leaves a trail.
inline bool trails() { return Trail::is_wanted() && !inside; }

}  // namespace msda::record
