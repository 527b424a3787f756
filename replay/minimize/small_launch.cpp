#include "replay/minimize/small_launch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <queue>

#include "recorder/capture/writer.h"
#include "recorder/writer/version.h"

namespace msda::replay {
namespace {

bool is_zero(std::byte byte) { return byte == std::byte{0}; }

// Bytes of a memory that may not matter.
struct Candidate {
  size_t memory, begin, bytes;
  bool operator<(const Candidate& candidate) const { return bytes < candidate.bytes; }
};

}  // namespace

int64_t SmallLaunch::bytes() const {
  int64_t sum = 0;
  for (const Memory& region : memory) sum += static_cast<int64_t>(region.bytes.size());
  return sum;
}

int64_t SmallLaunch::zeros() const {
  int64_t sum = 0;
  for (const Memory& region : memory) sum += std::ranges::count_if(region.bytes, is_zero);
  return sum;
}

RecordedLaunch::RecordedLaunch(std::string capture, const capture::IsolatedReader& reader, int64_t id)
    : from(std::move(capture)),
      run(reader.run()),
      invocation(reader.invocation(id)),
      code(capture::code_of(invocation.facts, reader.kernels())) {
  whole.grid = *invocation.facts.grid;
  for (const bool is_output : {false, true}) {
    for (const auto& info : is_output ? invocation.outputs_before : invocation.inputs) {
      const capture::Tensor tensor = reader.read(info);
      whole.memory.push_back({&info, is_output, {tensor.bytes().begin(), tensor.bytes().end()}});
    }
  }
}

bool LaunchSearch::try_it(const SmallLaunch& launch, const std::string& step) {
  ++trials;
  return varies(launch, step);
}

// Between the fewest blocks of an axis with which launches varied, and a number with which they did not.
void LaunchSearch::shrink_grid(SmallLaunch& launch) {
  for (int64_t& side : launch.grid) {
    int64_t varied = side, failed = 0;
    while (varied - failed > 1 && may_try()) {
      side = failed + (varied - failed) / 2;
      (try_it(launch, fmt::format("grid {}", fmt::join(launch.grid, ","))) ? varied : failed) = side;
    }
    side = varied;
  }
}

// The largest pieces first: what matters least is found by few trials.
void LaunchSearch::zero_memory(SmallLaunch& launch) {
  constexpr size_t kLeast = 256;
  std::priority_queue<Candidate> candidates;
  for (size_t i = 0; i < launch.memory.size(); ++i) candidates.push({i, 0, launch.memory[i].bytes.size()});
  while (!candidates.empty() && may_try()) {
    const auto [number, begin, bytes] = candidates.top();
    candidates.pop();
    const auto piece = std::span(launch.memory[number].bytes).subspan(begin, bytes);
    if (std::ranges::all_of(piece, is_zero)) continue;
    const std::vector<std::byte> before(piece.begin(), piece.end());
    std::ranges::fill(piece, std::byte{0});
    if (try_it(launch, fmt::format("{} zeros in {}", bytes, launch.memory[number].info->name))) continue;
    std::ranges::copy(before, piece.begin());
    if (bytes < 2 * kLeast) continue;
    candidates.push({number, begin, bytes / 2});
    candidates.push({number, begin + bytes / 2, bytes - bytes / 2});
  }
}

bool LaunchSearch::make_smaller(SmallLaunch& launch) {
  shrink_grid(launch);
  zero_memory(launch);
  return may_try();
}

void write_small_launch(const std::string& path, bool replace, bool packed, const RecordedLaunch& recorded,
                        const SmallLaunch& launch, const std::string& verdict) {
  const capture::Invocation& invocation = recorded.invocation;
  capture::CallFacts facts = invocation.facts;
  facts.grid = launch.grid;
  facts.duplicates.reset();
  facts.distinct_outputs.reset();
  facts.texts["minimized_from"] = fmt::format("{} invocation {}", recorded.from, invocation.id);
  facts.texts["minimized_grid"] = fmt::format("{}", fmt::join(*invocation.facts.grid, ","));
  using Writer = capture::Writer;
  Writer writer(path, replace ? Writer::IfExists::kReplace : Writer::IfExists::kRefuse, record::version());
  writer.write_run(recorded.run, {});
  if (!verdict.empty()) writer.write_verdict(verdict);
  if (recorded.code) writer.add_kernel(*recorded.code);
  writer.begin_invocation(facts, invocation.parameters);
  for (const auto& [info, is_output, bytes] : launch.memory) {
    const capture::TensorView view{*info, bytes, packed};
    is_output ? writer.add_output_before(view) : writer.add_input(view);
  }
  writer.flush();
  writer.close();
}

}  // namespace msda::replay
