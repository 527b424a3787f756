#include "recorder/preload/survey/kept_launch.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "recorder/preload/launch/functions.h"
#include "recorder/preload/launch/snapshot.h"
#include "recorder/preload/survey/first_sight.h"
#include "recorder/preload/survey/unwritten_text.h"

namespace msda::record {
namespace {

constexpr uint64_t kMostKept = uint64_t{512} << 20;  // bytes of memory, for a launch that no adapter decodes

// An allocation that parameters point into, from the first address on that they point to.
struct Memory {
  DeviceRange range;
  bool is_changed = false;
  uint64_t first = ~uint64_t{0};                // pointer
  std::string tensor = {};                      // "inputs/memory_0"
  const Unwritten::Words* unwritten = nullptr;  // of the allocation; null if all is written
};

uint64_t word_at(std::span<const std::byte> bytes, size_t offset) {
  uint64_t word = 0;
  std::memcpy(&word, bytes.data() + offset, sizeof word);
  return word;
}

Memory* memory_with(std::vector<Memory>& all, uint64_t address) {
  const auto found = std::ranges::find_if(
      all, [&](const Memory& region) { return address - region.range.address < region.range.bytes; });
  return found != all.end() ? &*found : nullptr;
}

// Decodes a launch as memory that it changes, and memory that it does not.
class MemoryAdapter : public adapters::Adapter {
 public:
  MemoryAdapter(std::vector<Memory> memory, uint64_t number) : memory_(std::move(memory)), number_(number) {}
  std::string_view name() const override { return "memory"; }
  bool matches(std::string_view) const override { return true; }

  adapters::Decoded decode(const adapters::Launch& launch, const adapters::ReadDevice&) const override {
    auto memory = memory_;
    adapters::Call call;
    UnwrittenText unwritten;
    call.facts.integers["survey"] = static_cast<int64_t>(number_);
    for_each_pointer(launch.bytes, memory,
                     [&](size_t, uint64_t address, Memory& region) { region.first = std::min(region.first, address); });
    for (Memory& region : memory) {
      const uint64_t begin = region.range.address, end = begin + region.range.bytes;
      if (region.first >= end) continue;  // no parameter points there
      region.range = {region.first, end - region.first};
      auto& tensors = region.is_changed ? call.outputs : call.inputs;
      const std::string name = "memory_" + std::to_string(call.inputs.size() + call.outputs.size());
      region.tensor = (region.is_changed ? "outputs/" : "inputs/") + name;
      tensors.push_back({{name, kernels::kUInt8, {static_cast<int64_t>(region.range.bytes)}}, region.range.address});
      if (region.unwritten != nullptr)
        unwritten.add(region.tensor, *region.unwritten, region.first - begin, end - begin);
    }
    if (!unwritten.text().empty()) call.facts.texts["unwritten"] = unwritten.text();
    if (const uint64_t bytes = unwritten.bytes_left_out(); bytes > 0) {
      call.facts.integers["unwritten_left_out"] = static_cast<int64_t>(bytes);
    }
    for_each_pointer(launch.bytes, memory, [&](size_t offset, uint64_t address, const Memory& region) {
      call.pointers.push_back({offset, address == region.range.address ? region.tensor : ""});
    });
    return call;
  }

 private:
  template <class Visit>
  static void for_each_pointer(std::span<const std::byte> bytes, std::vector<Memory>& memory, Visit&& visit) {
    for (size_t offset = 0; offset + sizeof(uint64_t) <= bytes.size(); offset += sizeof(uint64_t)) {
      const uint64_t address = word_at(bytes, offset);
      if (Memory* region = memory_with(memory, address)) visit(offset, address, *region);
    }
  }

  std::vector<Memory> memory_;
  uint64_t number_;  // the kernel's, in the survey
};

uint64_t bytes_reached(const KnownLaunch& known) {
  uint64_t sum = 0;
  for (const DeviceRange& range : known.ranges) sum += range.bytes;
  return sum;
}

// Needs memory to be as before the launch. Returns null if the launch cannot be recorded so.
std::unique_ptr<SnapshotState> begin_with(const adapters::Adapter& adapter, const Launched& launched, bool is_kernel,
                                          const adapters::Launch& launch) {
  const DecodedLaunch decoded = decode(launched, adapter, is_kernel, launch);
  if (!decoded.known || bytes_reached(*decoded.known) > kMostKept) return nullptr;
  auto state = std::make_unique<SnapshotState>();
  state->is_kernel = is_kernel;
  state->known = decoded.known;
  state->stream = launched.stream;
  return begin_copy(launched, adapter, *state) ? std::move(state) : nullptr;
}

std::unique_ptr<SnapshotState> begin_keeping(const Launched& launched, const SurveyedKernel& kernel,
                                             std::vector<Memory> memory) {
  std::string name;
  bool is_kernel = false;
  const adapters::Launch launch = launch_of(launched, kernel.layout);
  const adapters::Adapter* const known = Functions::instance().adapter_of(launched.function, name, is_kernel);
  if (known != nullptr) {
    if (auto state = begin_with(*known, launched, is_kernel, launch)) return state;
  }
  name_of_function(launched.function, is_kernel);
  return begin_with(MemoryAdapter(std::move(memory), kernel.number), launched, is_kernel, launch);
}

std::vector<Memory> memory_of(const std::vector<DeviceRange>& ranges, const std::vector<Digest>& before,
                              const std::vector<Digest>& after, std::span<const UnwrittenMemory> unwritten) {
  std::vector<Memory> memory;
  for (size_t i = 0; i < ranges.size(); ++i) {
    Memory& region = memory.emplace_back();
    region.range = ranges[i];
    region.is_changed = before[i] != after[i];
    const auto found = std::ranges::find(unwritten, ranges[i].address, &UnwrittenMemory::address);
    if (found != unwritten.end()) region.unwritten = &found->words;
  }
  return memory;
}

}  // namespace

bool keep_launch(const Launched& launched, const SurveyedKernel& kernel, Trial& trial,
                 std::span<const UnwrittenMemory> unwritten) {
  const auto ranges = trial.ranges();
  const auto after = digests_of(ranges, launched.stream);
  if (!after || !trial.put_back_before()) return trial.put_back_result() && false;
  std::unique_ptr<SnapshotState> state;
  try {
    if (const auto before = digests_of(ranges, launched.stream)) {
      auto memory = memory_of(ranges, *before, *after, unwritten);
      // A launch that happened to change nothing has no results to compare.
      if (std::ranges::any_of(memory, &Memory::is_changed)) state = begin_keeping(launched, kernel, std::move(memory));
    }
  } catch (...) {  // no memory of the host; the results are put back all the same
  }
  if (!trial.put_back_result() || state == nullptr) return false;
  end_registered(launched, *state);
  return true;
}

}  // namespace msda::record
