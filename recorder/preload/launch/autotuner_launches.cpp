#include "recorder/preload/launch/autotuner_launches.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <shared_mutex>
#include <utility>

#include "recorder/preload/driver/own_calls.h"
#include "recorder/preload/session/recording.h"

namespace msda::record {
namespace {

std::atomic<uint64_t> waits{0};     // how often the program has synchronized with the device
std::atomic<bool> measures{false};  // whether it has recorded a timing event since

// Taken because another thread may destroy a stream, or its context, whose launches are still to be checked.
std::shared_timed_mutex streams_mutex;
constexpr std::chrono::seconds kLockPatience{1};  // a fork may have left it locked
std::atomic<uint64_t> ended_streams{0};

// Consecutive measured launches whose inputs are still to be checked. The check runs after the event that ends the
// measurement. Even there a digest changes the next measurement by a microsecond, so only some of the later launches
// are checked. Launches between two that had the known inputs are assumed to have had them, too.
struct Measured {
  cuda::Stream stream;
  std::shared_ptr<KnownLaunch> known;
  std::shared_ptr<const LastContent> last;
  uint64_t ended_streams = 0;  // before the first of them
  int64_t launches = 0;

  bool is_due() const {
    constexpr int kEachOfTheFirst = 16, kOneOf = 64;
    return known->checked_launches < kEachOfTheFirst || launches >= kOneOf;
  }
};
thread_local Measured* measured = nullptr;  // owned by the thread; no destructor: destructors of the program may launch

void forget_content(KnownLaunch& known) {
  known.set_last({});
  recording().report_missed_launch(known.name);
}

// Checks that the last launch had the recorded inputs and, with `with_outputs`, whether its outputs are new.
void check(const Measured& launches, bool with_outputs) {
  const auto& known = launches.known;
  std::vector<DeviceRange> ranges(known->inputs().begin(), known->inputs().end());
  for (const auto& tensor : known->call.outputs) {
    if (!with_outputs || !tensor.written_over) continue;
    ranges.push_back({tensor.address, static_cast<uint64_t>(tensor.bytes())});
  }
  std::string failure;
  const auto digests = std::make_shared<const Digests>(Digester::instance().start(ranges, launches.stream, failure));
  const size_t inputs = known->call.inputs.size(), outputs = ranges.size() - inputs;
  const auto counted = [known, digests, last = launches.last, count = launches.launches, inputs, outputs] {
    const bool same = content_key(*known, last->label, *digests) == last->key;
    known->checked_launches = same ? known->checked_launches + 1 : 0;
    const std::string results = joined_digests(*digests, inputs, outputs);
    if (!same || !recording().count_duplicates(last->key, known->code + " autotuner", results, count)) {
      forget_content(*known);
    }
  };
  if (!*digests || !recording().when_ready([digests] { return digests->ready(); }, counted)) forget_content(*known);
}

// Another thread may have freed the memory meanwhile.
bool inputs_are_there(const KnownLaunch& known) {
  return std::ranges::all_of(known.inputs(),
                             [](const DeviceRange& range) { return cuda::is_allocated(range.address, range.bytes); });
}

// Checks without outputs, which later launches may have overwritten.
void check_measured() {
  const std::unique_ptr<const Measured> launches(std::exchange(measured, nullptr));
  const std::shared_lock lock(streams_mutex, kLockPatience);
  int capturing = 0;
  if (lock && launches->ended_streams == ended_streams &&
      cuda::driver().is_capturing(launches->stream, &capturing) == cuda::kSuccess && capturing == 0 &&
      inputs_are_there(*launches->known)) {
    check(*launches, /*with_outputs=*/false);
  } else {
    forget_content(*launches->known);
  }
}

}  // namespace

[[gnu::hot]] bool program_measures() noexcept { return measures.load(std::memory_order_relaxed); }
[[gnu::hot]] uint64_t waits_of_program() noexcept { return waits.load(std::memory_order_relaxed); }

[[gnu::hot]] void before_another(const KnownLaunch* known, const LastContent& last) {
  if (measured == nullptr) return;
  const bool one_more = measures && measured->known.get() == known && measured->last->key == last.key;
  if (!one_more || measured->is_due()) check_measured();
}

void end_autotuner_launch(cuda::Stream stream, const std::shared_ptr<KnownLaunch>& known,
                          std::shared_ptr<const LastContent> last) {
  if (!measures) {
    check({stream, known, std::move(last), 0, 1}, /*with_outputs=*/true);
    return;
  }
  if (measured == nullptr) measured = new Measured{stream, known, std::move(last), ended_streams};
  ++measured->launches;
}

void program_waits() noexcept {
  if (!inside && measured != nullptr) by_itself(check_measured);
}

void program_waited() noexcept {
  if (inside) return;
  waits.fetch_add(1, std::memory_order_relaxed);
  measures.store(false, std::memory_order_relaxed);
}

void program_took_time() noexcept {
  if (inside) return;
  measures.store(true, std::memory_order_relaxed);
  if (measured != nullptr && measured->is_due()) by_itself(check_measured);
}

EndOfStream::EndOfStream() noexcept {
  program_waits();
  locked_ = streams_mutex.try_lock_for(kLockPatience);
  ended_streams.fetch_add(1);
}

EndOfStream::~EndOfStream() {
  if (locked_) streams_mutex.unlock();
}

}  // namespace msda::record
