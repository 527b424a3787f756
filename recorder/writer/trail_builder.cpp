#include "recorder/writer/trail_builder.h"

#include <algorithm>
#include <cstring>

#include "recorder/spool/archive.h"

namespace msda::record {
namespace {

void require(bool is_right, const char* what) {
  if (!is_right) throw spool::Error(what);
}

capture::TrailRow row_of(const spool::TrailRow& from) {
  require(from.kind < static_cast<uint8_t>(capture::TrailKind::kCall), "a row of a trail is of an unknown kind");
  capture::TrailRow row;
  row.digest = from.digest;
  row.bytes = from.bytes;
  row.kernel = from.kernel;
  row.configuration = from.configuration;
  row.parameters = from.parameters;
  row.caller = from.caller;
  row.parts = from.parts;
  row.stream = from.stream;
  row.kind = static_cast<capture::TrailKind>(from.kind);
  row.flags = from.flags;
  return row;
}
using Kind = capture::TrailKind;
using Sent = spool::TrailRow;
static_assert(static_cast<int>(Kind::kLaunch) == Sent::kLaunch && static_cast<int>(Kind::kGraph) == Sent::kGraph &&
              static_cast<int>(Kind::kCopyIn) == Sent::kCopyIn &&
              static_cast<int>(Kind::kCopyWithin) == Sent::kCopyWithin &&
              static_cast<int>(Kind::kCopyOut) == Sent::kCopyOut && static_cast<int>(Kind::kSet) == Sent::kSet &&
              static_cast<int>(Kind::kHostMemory) == Sent::kHostMemory &&
              static_cast<int>(Kind::kFreshMemory) == Sent::kFreshMemory && capture::kNoEntry == Sent::kNone);
static_assert(capture::TrailRow::kIsDigested == Sent::kIsDigested && capture::TrailRow::kMeasures == Sent::kMeasures &&
              capture::TrailRow::kIsUnordered == Sent::kIsUnordered &&
              capture::TrailRow::kIsSparse == Sent::kIsSparse && capture::Trail::kAddress == Sent::kAddress);

}  // namespace

void TrailBuilder::add_lists(const spool::TrailPart& part) {
  constexpr size_t kNumbers = 7, kTexts = 4, kOfChange = 3;
  const size_t kernels = part.kernels.size();
  require(part.kernel_digests.size() == kernels && part.architectures.size() == kernels &&
              part.kernel_facts.size() == kernels && part.configurations.size() % kNumbers == 0 &&
              part.callers.size() % kTexts == 0 && part.changes.size() % kOfChange == 0,
          "a part of a trail has lists of unequal lengths");
  for (size_t i = 0; i < kernels; ++i) {
    trail_.kernels.push_back({part.kernels[i], part.kernel_digests[i], part.architectures[i], part.kernel_facts[i]});
    bytes_ += static_cast<int64_t>(part.kernels[i].size()) + 512;
  }
  for (size_t i = 0; i < part.configurations.size(); i += kNumbers) {
    uint32_t numbers[kNumbers];
    std::ranges::transform(part.configurations.begin() + static_cast<std::ptrdiff_t>(i),
                           part.configurations.begin() + static_cast<std::ptrdiff_t>(i + kNumbers), numbers,
                           [](uint64_t number) { return static_cast<uint32_t>(number); });
    trail_.configurations.push_back(
        {{numbers[0], numbers[1], numbers[2]}, {numbers[3], numbers[4], numbers[5]}, numbers[6]});
  }
  for (size_t i = 0; i < part.callers.size(); i += kTexts) {
    trail_.callers.push_back({part.callers[i], part.callers[i + 1], part.callers[i + 2], part.callers[i + 3]});
    for (size_t j = 0; j < kTexts; ++j) bytes_ += static_cast<int64_t>(part.callers[i + j].size());
  }
  for (const std::string& text : part.parts) bytes_ += static_cast<int64_t>(text.size());
  trail_.parts.insert(trail_.parts.end(), part.parts.begin(), part.parts.end());
  for (size_t i = 0; i < part.changes.size(); i += kOfChange) {
    trail_.changes.push_back({part.changes[i], static_cast<uint32_t>(part.changes[i + 1]), part.changes[i + 2]});
  }
  trail_.missing += part.missing;
}

void TrailBuilder::add_rows(std::span<const std::byte> rows) {
  const auto is_in = [](uint32_t index, const auto& list) { return index == capture::kNoEntry || index < list.size(); };
  for (; !rows.empty(); rows = rows.subspan(sizeof(spool::TrailRow))) {
    spool::TrailRow sent;
    std::memcpy(&sent, rows.data(), sizeof sent);
    const capture::TrailRow row = row_of(sent);
    require(is_in(row.kernel, trail_.kernels) && is_in(row.configuration, trail_.configurations) &&
                is_in(row.caller, trail_.callers) && is_in(row.parts, trail_.parts) &&
                is_in(row.parameters, trail_.parameters),
            "a row of a trail names what was not delivered");
    launches_ += row.kind == Kind::kLaunch || row.kind == Kind::kGraph;
    trail_.rows.push_back(row);
  }
}

void TrailBuilder::add_parameters(const spool::TrailPart& part, std::span<const std::byte> bytes) {
  for (const uint64_t size : part.parameter_bytes) {
    require(size <= bytes.size(), "a part of a trail lacks parameters");
    trail_.parameters.emplace_back(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    bytes = bytes.subspan(size);
  }
}

void TrailBuilder::add(const spool::TrailPart& part, std::span<const std::byte> payload) {
  require(part.rows <= payload.size() / sizeof(spool::TrailRow), "a part of a trail lacks rows");
  const size_t of_rows = part.rows * sizeof(spool::TrailRow);
  add_lists(part);
  add_parameters(part, payload.subspan(of_rows));
  add_rows(payload.first(of_rows));
  is_complete_ = part.is_last;
  constexpr int64_t kOfChange = 20;
  bytes_ += static_cast<int64_t>(payload.size()) + kOfChange * static_cast<int64_t>(part.changes.size());
}

}  // namespace msda::record
