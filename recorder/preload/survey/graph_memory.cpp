#include "recorder/preload/survey/graph_memory.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "recorder/preload/driver/saver.h"
#include "recorder/preload/survey/first_sight.h"

namespace msda::record {
namespace {

// An array of the device's addresses may be mapped piece by piece.
void add_memory(const DeviceRange& range, Reach& reach) {
  const uint64_t end = range.address + range.bytes;
  for (uint64_t at = range.address; at < end;) {
    cuda::DevicePointer base = 0;
    size_t bytes = 0;
    reach.add_allocation_of(at);
    if (cuda::driver().address_range(&base, &bytes, at) != cuda::kSuccess || base + bytes <= at) return;
    at = base + bytes;
  }
}

constexpr uint64_t kBytesOfWord = sizeof(uint64_t);

}  // namespace

bool leaves_device(const CopyStep& copy) {
  return copy.to.type == cuda::MemoryType::kHost || !is_memory_of_this_device(range_of(copy.to, copy).address);
}

void add_reach_of(const std::vector<GraphStep>& steps, Reach& reach) {
  std::vector<std::byte> words;
  for (const GraphStep& step : steps) {
    if (!step.is_enabled) continue;
    if (const auto* const kernel = std::get_if<KernelStep>(&step.what)) {
      words.insert(words.end(), kernel->bytes.begin(), kernel->bytes.end());
      words.resize((words.size() + kBytesOfWord - 1) / kBytesOfWord * kBytesOfWord);
    } else if (const auto* const copy = std::get_if<CopyStep>(&step.what)) {
      add_memory(range_of(copy->from, *copy), reach);
      if (!leaves_device(*copy)) add_memory(range_of(copy->to, *copy), reach);
    } else if (const auto* const set = std::get_if<SetStep>(&step.what)) {
      add_memory(range_of(*set), reach);
    }
  }
  for (std::span<const std::byte> rest = words; !rest.empty(); rest = rest.subspan(kBytesOfWord)) {
    uint64_t word = 0;
    std::memcpy(&word, rest.data(), kBytesOfWord);
    reach.add_allocation_of(word);
  }
}

bool reads_what_left(const std::vector<GraphStep>& steps, const Reach& reach) {
  std::vector<DeviceRange> written, read = reach.shared;
  for (const GraphStep& step : steps) {
    const auto* const copy = std::get_if<CopyStep>(&step.what);
    if (copy == nullptr || !step.is_enabled) continue;
    if (leaves_device(*copy)) written.push_back(range_of(copy->to, *copy));
    read.push_back(range_of(copy->from, *copy));
  }
  return std::ranges::any_of(written, [&](const DeviceRange& output) {
    return std::ranges::any_of(read, [&](const DeviceRange& input) { return overlap(output, input); });
  });
}

bool GraphMemory::reserve(const Reach& reach, CopySpace& space, int64_t& left_on_host, cuda::Stream stream) {
  stream_ = stream;
  ranges_.assign(reach.ranges().begin(), reach.ranges().end());
  before_ = result_ = ranges_;
  uint64_t end = 0;
  const auto take = [&](uint64_t bytes) { return std::exchange(end, end + aligned(bytes)); };
  for (Ranges* const ranges : {&before_, &result_}) {
    for (DeviceRange& range : *ranges) range.address = take(range.bytes);
  }
  shared_ = WatchedMemory(reach.shared, take);
  const cuda::DevicePointer begin = space.reserve(std::max<uint64_t>(end, 1), left_on_host);
  for (Ranges* const ranges : {&before_, &result_}) {
    for (DeviceRange& range : *ranges) range.address += begin;
  }
  shared_.copies_begin_at(begin);
  return begin != 0;
}

bool GraphMemory::copy(const Ranges& from, const Ranges& to, const DeviceRange& all) const {
  std::vector<SavedPiece> pieces;
  for (size_t i = 0; i < from.size(); ++i) pieces.push_back({from[i].address, to[i].address, from[i].bytes});
  return Saver::instance().save(pieces, all, stream_);
}

}  // namespace msda::record
