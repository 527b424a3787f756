#include "replay/diff/trail_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "recorder/capture/isolated_reader.h"
#include "recorder/device/kernel_names.h"
#include "recorder/text/shell.h"
#include "replay/base/errors.h"

namespace msda::replay {

using capture::kNoEntry;
using capture::TrailKind;
using capture::TrailRow;

namespace {

uint64_t word_at(const std::vector<std::byte>& bytes, size_t offset) {
  uint64_t word = 0;
  std::memcpy(&word, bytes.data() + offset, std::min(sizeof word, bytes.size() - offset));
  return word;
}

}  // namespace

TrailRun read_trail_run(const std::string& file) {
  const capture::IsolatedReader reader(file);
  auto trail = reader.trail();
  if (!trail) {
    throw BadInput(fmt::format("{}: has no trail to compare with; record one: msda-record --trail -o {} -- COMMAND",
                               file, text::shell_word("trail.h5")));
  }
  TrailRun run{file, *std::move(trail), reader.run(), reader.seeds(), {}};
  uint32_t launches = 0;
  run.launches.reserve(run.trail.rows.size());
  for (const TrailRow& row : run.trail.rows) run.launches.push_back(launches += row.kind == TrailKind::kLaunch);
  return run;
}

const capture::TrailKernel& TrailRun::kernel(size_t at) const {
  static const capture::TrailKernel kNone;
  return row(at).kernel == kNoEntry ? kNone : trail.kernels[row(at).kernel];
}

const capture::TrailCaller& TrailRun::caller(size_t at) const {
  static const capture::TrailCaller kNone;
  return row(at).caller == kNoEntry ? kNone : trail.callers[row(at).caller];
}

const capture::TrailConfiguration* TrailRun::configuration(size_t at) const {
  return row(at).configuration == kNoEntry ? nullptr : &trail.configurations[row(at).configuration];
}

const std::string& TrailRun::parts(size_t at) const {
  static const std::string kNone;
  return row(at).parts == kNoEntry ? kNone : trail.parts[row(at).parts];
}

std::vector<std::byte> TrailRun::parameters(size_t at) const {
  if (row(at).parameters == kNoEntry) return {};
  std::vector<std::byte> bytes = trail.parameters[row(at).parameters];
  for (const auto& change : std::ranges::equal_range(trail.changes, at, {}, &capture::Trail::Change::row)) {
    std::memcpy(bytes.data() + change.offset, &change.word, std::min(sizeof change.word, bytes.size() - change.offset));
  }
  return bytes;
}

std::string TrailRun::fact(const char* name) const {
  const auto found = run.facts.find(name);
  return found == run.facts.end() ? "" : found->second;
}

bool is_launch(const TrailRow& row) {
  return row.kind == TrailKind::kLaunch || row.kind == TrailKind::kGraph || row.kind == TrailKind::kCall;
}

bool is_collective(const TrailRun& run, size_t row) { return record::is_collective(run.kernel(row).name); }

bool is_comparable(const TrailRun& a, size_t row_a, const TrailRun& b, size_t row_b) {
  return (a.row(row_a).flags & b.row(row_b).flags & TrailRow::kIsDigested) != 0 && a.parts(row_a) == b.parts(row_b);
}

std::vector<ParameterDifference> parameter_differences(const TrailRun& a, size_t row_a, const TrailRun& b,
                                                       size_t row_b) {
  const std::vector<std::byte> of_a = a.parameters(row_a), of_b = b.parameters(row_b);
  std::vector<ParameterDifference> differences;
  for (size_t offset = 0; offset < std::max(of_a.size(), of_b.size()); offset += sizeof(uint64_t)) {
    const bool in_a = offset < of_a.size(), in_b = offset < of_b.size();
    const uint64_t word_a = in_a ? word_at(of_a, offset) : 0, word_b = in_b ? word_at(of_b, offset) : 0;
    if (in_a != in_b || word_a != word_b) differences.push_back({offset, word_a, word_b, in_a, in_b});
  }
  return differences;
}

}  // namespace msda::replay
