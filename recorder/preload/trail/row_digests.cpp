#include "recorder/preload/trail/row_digests.h"

#include <algorithm>
#include <string>
#include <utility>

#include "recorder/preload/driver/own_calls.h"

namespace msda::record {

template <class End>
void RowDigests::for_each_row(const std::vector<Part>& parts, End&& end) {
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i == 0 || parts[i].row != parts[i - 1].row) end(parts[i].row);
  }
}

void RowDigests::add(uint64_t row, std::span<const RowPart> parts, cuda::Context context, cuda::Stream stream) {
  constexpr uint64_t kMostBytes = 64 << 20;  // digesting so much takes longer than a launch
  if (context != context_ || stream != stream_) flush();
  context_ = context;
  stream_ = stream;
  for (const auto& [number, range, before] : parts) {
    if (range.bytes == 0) continue;
    if (ranges_.size() == Digester::kMostRanges) flush();
    if (parts_.empty() || parts_.back().row != row) rows_.awaits(row);
    parts_.push_back({row, number, range.bytes - before});
    ranges_.push_back(range);
    before_.push_back(before);
    bytes_ += range.bytes;
  }
  // What this stream is depends on the thread.
  if (bytes_ > kMostBytes || stream == cuda::kStreamPerThread) flush();
}

bool RowDigests::must_flush_before(std::span<const DeviceRange> ranges, cuda::Context context,
                                   cuda::Stream stream) const {
  if (ranges_.empty()) return false;
  return context != context_ || stream != stream_ || overlap(ranges, ranges_);
}

void RowDigests::flush() {
  if (ranges_.empty()) return;
  const RelaxedCapture relaxed;
  const InContext in(context_);
  UnderWay started;
  started.parts = std::exchange(parts_, {});
  int captures = 0;
  const auto captured = cuda::driver().is_capturing(stream_, &captures);
  std::string failure;
  if (captured == cuda::kSuccess && captures == 0) {
    started.digests = Digester::instance().start(ranges_, stream_, failure, before_);
  }
  ranges_.clear();
  before_.clear();
  bytes_ = 0;
  if (started.digests) {
    under_way_.push_back(std::move(started));
  } else {
    for_each_row(started.parts, [this](uint64_t row) { rows_.failed(row); });
  }
}

void RowDigests::collect() {
  while (!under_way_.empty() && under_way_.front().digests.ready()) {
    const auto& [digests, parts] = under_way_.front();
    for (size_t i = 0; i < parts.size(); ++i) rows_.add(parts[i].row, parts[i].number, digests[i], parts[i].bytes);
    for_each_row(parts, [this](uint64_t row) { rows_.arrived(row); });
    under_way_.pop_front();
  }
}

void RowDigests::give_up() {
  const auto fail = [this](uint64_t row) { rows_.failed(row); };
  for (const UnderWay& launch : std::exchange(under_way_, {})) for_each_row(launch.parts, fail);
  for_each_row(std::exchange(parts_, {}), fail);
  ranges_.clear();
  before_.clear();
  bytes_ = 0;
}

}  // namespace msda::record
