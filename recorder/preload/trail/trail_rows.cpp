#include "recorder/preload/trail/trail_rows.h"

#include <algorithm>
#include <utility>

#include "recorder/preload/session/recording.h"

namespace msda::record {
namespace {

// Returns the key's number, in the order in which keys come, and whether it is new.
template <class Map>
std::pair<uint32_t, bool> number_of(Map& map, const typename Map::key_type& key) {
  const auto [entry, is_new] = map.try_emplace(key, static_cast<uint32_t>(map.size()));
  return {entry->second, is_new};
}

// Parts may be digested in any order: their sum does not depend on it.
uint64_t mixed(const Digest& digest, uint32_t part) {
  uint64_t x = digest.first ^ (digest.second * 0x9E3779B97F4A7C15) ^ ((part + uint64_t{1}) * 0xA0761D6478BD642F);
  x = (x ^ x >> 32) * 0xE7037ED1A0B428DB;
  return x ^ x >> 29;
}

}  // namespace

uint32_t TrailRows::kernel(const SurveyedKernel& kernel) {
  const auto [number, is_new] = number_of(kernels_, {kernel.layout.kernel, kernel.digest()});
  if (!is_new) return number;
  part_.kernels.push_back(kernel.layout.kernel);
  part_.kernel_digests.push_back(kernel.digest());
  part_.architectures.push_back(kernel.facts.architecture);
  auto& facts = part_.kernel_facts.emplace_back();
  for (const char* name : {"float_atomics", "may_communicate", "registers", "shared_bytes"}) {
    const auto found = kernel.facts.integers.find(name);
    if (found != kernel.facts.integers.end()) facts.insert(*found);
  }
  return number;
}

uint32_t TrailRows::configuration(const Launched& launched) {
  std::vector<uint64_t> numbers(launched.grid.begin(), launched.grid.end());
  numbers.insert(numbers.end(), launched.block.begin(), launched.block.end());
  numbers.push_back(launched.shared_bytes);
  const auto [number, is_new] = number_of(configurations_, numbers);
  if (is_new) part_.configurations.insert(part_.configurations.end(), numbers.begin(), numbers.end());
  return number;
}

uint32_t TrailRows::caller(const Caller& caller, const std::string& label) {
  const std::vector<std::string> texts{caller.python, caller.node, caller.operation, label};
  if (std::ranges::all_of(texts, &std::string::empty)) return spool::TrailRow::kNone;
  const auto [number, is_new] = number_of(callers_, texts);
  if (is_new) part_.callers.insert(part_.callers.end(), texts.begin(), texts.end());
  return number;
}

uint32_t TrailRows::parts(const std::string& text) {
  const auto [number, is_new] = number_of(parts_, text);
  if (is_new) part_.parts.push_back(text);
  return number;
}

uint32_t TrailRows::parameters(const std::vector<std::byte>& bytes) {
  part_.parameter_bytes.push_back(bytes.size());
  parameter_bytes_.insert(parameter_bytes_.end(), bytes.begin(), bytes.end());
  return parameters_++;
}

uint64_t TrailRows::append(const spool::TrailRow& row, uint64_t place) {
  waiting_.push_back({row, place, 0, false});
  return next() - 1;
}

void TrailRows::changed_word(uint32_t offset, uint64_t word) {
  part_.changes.insert(part_.changes.end(), {next() - 1, offset, word});
}

void TrailRows::awaits(uint64_t row) {
  if (Waiting* const found = waiting(row)) ++found->awaited;
}

void TrailRows::arrived(uint64_t row) {
  if (Waiting* const found = waiting(row)) --found->awaited;
}

void TrailRows::learnt(uint64_t row, uint32_t parts, bool is_sparse) {
  Waiting* const found = waiting(row);
  if (found == nullptr) return;
  found->row.parts = parts;
  if (is_sparse) found->row.flags |= spool::TrailRow::kIsSparse;
}

void TrailRows::add(uint64_t row, uint32_t part, const Digest& digest, uint64_t bytes) {
  Waiting* const found = waiting(row);
  if (found == nullptr) return;
  found->row.digest += mixed(digest, part);
  found->row.bytes += bytes;
}

void TrailRows::failed(uint64_t row) {
  Waiting* const found = waiting(row);
  if (found == nullptr) return;
  found->has_failed = true;
  --found->awaited;
}

bool TrailRows::is_like(const Waiting& a, const Waiting& b) {
  const auto key = [](const Waiting& waiting) {
    const spool::TrailRow& row = waiting.row;
    return std::tuple(row.kind, row.kernel, row.configuration, row.parameters, row.stream, row.digest, row.bytes,
                      row.flags & spool::TrailRow::kIsDigested, waiting.place);
  };
  return key(a) == key(b);
}

// A tuner launches the same again and again, with other work between, as often as its clock says. An equal launch that
// is repeated shortly afterwards decides nothing.
void TrailRows::mark_if_repeated(Waiting& waiting) {
  constexpr size_t kShortly = 4;
  if (std::ranges::any_of(last_, [&](const Waiting& last) { return is_like(last, waiting); })) {
    waiting.row.flags |= spool::TrailRow::kMeasures;
  }
  last_.push_front(waiting);
  if (last_.size() > kShortly) last_.pop_back();
}

void TrailRows::collect() {
  while (!waiting_.empty() && waiting_.front().awaited == 0) {
    Waiting& waiting = waiting_.front();
    if (!waiting.has_failed) waiting.row.flags |= spool::TrailRow::kIsDigested;
    if (waiting.has_failed) waiting.row.digest = waiting.row.bytes = 0;
    mark_if_repeated(waiting);
    collected_.push_back(waiting.row);
    waiting_.pop_front();
    ++first_;
  }
}

void TrailRows::deliver(bool is_last) {
  if (!is_last && collected_.empty() && part_.missing == 0) return;
  part_.is_last = is_last;
  part_.rows = collected_.size();
  const auto rows = std::as_bytes(std::span(collected_));
  std::vector<std::byte> payload(rows.begin(), rows.end());
  payload.insert(payload.end(), parameter_bytes_.begin(), parameter_bytes_.end());
  // A row that still waits is delivered later, and so are its changes: a program that is killed has rows for all.
  size_t end = part_.changes.size();
  while (end > 0 && part_.changes[end - 3] >= first_) end -= 3;
  const std::vector<uint64_t> later(part_.changes.begin() + static_cast<ptrdiff_t>(end), part_.changes.end());
  part_.changes.resize(end);
  recording().deliver_trail(part_, payload);
  part_ = {};
  part_.changes = later;
  collected_.clear();
  parameter_bytes_.clear();
}

void TrailRows::give_up() {
  for (Waiting& waiting : waiting_) {
    waiting.has_failed |= waiting.awaited > 0;
    waiting.awaited = 0;
  }
  collect();
}

}  // namespace msda::record
