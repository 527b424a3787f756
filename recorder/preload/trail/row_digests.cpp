#include "recorder/preload/trail/row_digests.h"

#include <algorithm>
#include <string>
#include <utility>

namespace msda::record {

bool RowDigests::start_some(uint64_t row, std::span<const RowPart> parts, cuda::Stream stream) {
  ranges_.clear();
  UnderWay started{row, {}, {}};
  started.parts.reserve(parts.size());
  for (const auto& [number, range] : parts) {
    if (range.bytes == 0) continue;
    ranges_.push_back(range);
    started.parts.push_back({number, range.bytes});
  }
  if (ranges_.empty()) return true;
  rows_.awaits(row);
  std::string failure;
  started.digests = Digester::instance().start(ranges_, stream, failure);
  if (!started.digests) {
    rows_.failed(row);
    return false;
  }
  under_way_.push_back(std::move(started));
  return true;
}

bool RowDigests::start(uint64_t row, std::span<const RowPart> parts, cuda::Stream stream) {
  bool has_started = true;
  while (!parts.empty()) {
    const size_t count = std::min(parts.size(), Digester::kMostRanges);
    has_started &= start_some(row, parts.first(count), stream);
    parts = parts.subspan(count);
  }
  return has_started;
}

void RowDigests::collect() {
  while (!under_way_.empty() && under_way_.front().digests.ready()) {
    const auto& [row, digests, parts] = under_way_.front();
    for (size_t i = 0; i < parts.size(); ++i) rows_.add(row, parts[i].number, digests[i], parts[i].bytes);
    rows_.arrived(row);
    under_way_.pop_front();
  }
}

void RowDigests::give_up() {
  for (const UnderWay& launch : std::exchange(under_way_, {})) rows_.failed(launch.row);
}

}  // namespace msda::record
