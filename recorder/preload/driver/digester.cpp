#include "recorder/preload/driver/digester.h"

#include <algorithm>
#include <utility>

#include "recorder/adapters/made_once.h"

namespace msda::record {
namespace {

[[gnu::cold]] std::string too_many_tensors() {
  return "it has more than " + std::to_string(Digester::kMostRanges) + " tensors";
}

}  // namespace

Digests& Digests::operator=(Digests&& from) noexcept {
  std::swap(slot_, from.slot_);
  std::swap(sequence_, from.sequence_);
  std::swap(of_range_, from.of_range_);
  std::swap(ranges_, from.ranges_);
  std::swap(count_, from.count_);
  std::swap(handed_over_, from.handed_over_);
  return *this;
}

Digests::~Digests() {
  if (slot_ != nullptr) Digester::instance().give_back(slot_, sequence_);
}

bool Digests::ready() const { return ResultSlots::is_complete(slot_, sequence_); }

Digest Digests::operator[](size_t range) const {
  const uint8_t index = of_range_[range];
  return index == kNone ? Digest{} : Digest{slot_[1 + 2 * index], slot_[2 + 2 * index]};
}

[[gnu::hot]] Digester& Digester::instance() {
  static constinit MadeOnce<Digester> digester;
  return digester.get();
}

void Digester::context_ends(cuda::Context context) noexcept {
  const std::lock_guard lock(mutex_);
  kernel_.context_ends();
  slots_.context_ends(context);
}

[[gnu::hot]] bool Digester::launch(Digests& digests, std::span<const DeviceRange> ranges,
                                   std::span<const uint8_t> before, cuda::Stream stream, bool hands_over,
                                   std::string& failure) noexcept try {
  if (ranges.size() > kMostRanges || digests.ranges_ + ranges.size() > kMostDigests) {
    failure = too_many_tensors();
    return false;
  }
  uint64_t bytes = 0;
  for (const DeviceRange& range : ranges) bytes += range.bytes;
  DigestTable table(bytes);
  for (size_t i = 0; i < ranges.size(); ++i) {
    const bool is_empty = ranges[i].bytes == 0;
    digests.of_range_[digests.ranges_ + i] =
        is_empty ? Digests::kNone : static_cast<uint8_t>(digests.count_ + table.count());
    table.add(ranges[i].address, ranges[i].bytes, before.empty() ? 0 : before[i]);
  }
  if (!table.launchable()) {
    failure = "its tensors are empty, or larger than any memory";
    return false;
  }
  const std::lock_guard lock(mutex_);
  if (const cuda::Result loaded = kernel_.function() == nullptr ? kernel_.load() : cuda::kSuccess;
      loaded != cuda::kSuccess) {
    failure = "the driver refuses the recorder's digests" + in_brackets(loaded);
    return false;
  }
  if (!slots_.prepare(failure)) return false;
  const bool is_fresh = digests.slot_ == nullptr;
  uint64_t* slot = is_fresh ? slots_.free_slot() : digests.slot_;
  if (slot == nullptr) {
    failure = "too many launches are under way";
    return false;
  }
  DigestTarget target{slots_.on_device(slot), hands_over ? slot : nullptr, slots_.next_sequence(),
                      digests.count_,         digests.handed_over_,        digests.count_ + table.count()};
  auto parameters = table.parameters(target);
  const cuda::Result result =
      kernel_.launch(static_cast<unsigned>(table.blocks()), 1, kDigestThreads, stream, parameters);
  if (result != cuda::kSuccess) {
    failure = "the driver does not launch the recorder's digests" + in_brackets(result);
    return false;
  }
  if (is_fresh) slots_.take_free_slot();
  digests.slot_ = slot;
  digests.sequence_ = target.sequence;
  digests.ranges_ += ranges.size();
  digests.count_ = target.end;
  if (hands_over) digests.handed_over_ = target.end;
  return true;
} catch (...) {
  failure = "no memory";
  return false;
}

Digests Digester::start(std::span<const DeviceRange> ranges, cuda::Stream stream, std::string& failure,
                        std::span<const uint8_t> before) noexcept {
  Digests digests;
  launch(digests, ranges, before, stream, /*hands_over=*/true, failure);
  return digests;
}

[[gnu::hot]] Digests Digester::begin(std::span<const DeviceRange> ranges, cuda::Stream stream,
                                     std::string& failure) noexcept {
  Digests digests;
  launch(digests, ranges, {}, stream, /*hands_over=*/false, failure);
  return digests;
}

bool Digester::extend(Digests& digests, std::span<const DeviceRange> ranges, cuda::Stream stream,
                      std::string& failure) noexcept {
  return launch(digests, ranges, {}, stream, /*hands_over=*/true, failure);
}

void Digester::finish(Digests& digests, std::span<const DeviceRange> ranges, cuda::Stream stream) noexcept {
  const auto any = std::ranges::find_if(ranges, [](const DeviceRange& range) { return range.bytes > 0; });
  if (any == ranges.end()) return;
  const DeviceRange little{any->address, 1};
  std::string failure;
  extend(digests, {&little, 1}, stream, failure);
}

void Digester::give_back(uint64_t* slot, uint64_t sequence) {
  const std::lock_guard lock(mutex_);
  slots_.give_back(slot, sequence);
}

}  // namespace msda::record
