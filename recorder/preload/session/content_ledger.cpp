#include "recorder/preload/session/content_ledger.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace msda::record {

ContentLedger::Entry* ContentLedger::find(const std::string& key) {
  const auto found = by_key_.find(key);
  return found != by_key_.end() ? &*found->second : nullptr;
}

// The most recently called is last.
void ContentLedger::called(const std::string& key) { entries_.splice(entries_.end(), entries_, by_key_.at(key)); }

void ContentLedger::end_use(Entry& entry) {
  if (entry.under_way > 0) --entry.under_way;
}

ContentLedger::Registration ContentLedger::register_call(const std::string& key, const std::string& before) {
  if (Entry* known = find(key)) {
    ++known->under_way;
    return {known->invocation, true, known->delivered && known->before == before};
  }
  entries_.push_back({});
  try {
    entries_.back().key = key;
    by_key_.emplace(key, std::prev(entries_.end()));
  } catch (...) {
    entries_.pop_back();
    throw;
  }
  Entry& entry = entries_.back();
  entry.invocation = next_invocation_++;
  entry.under_way = 1;
  return {entry.invocation, false, false};
}

bool ContentLedger::abandon_call(const std::string& key, uint64_t invocation) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end() || found->second->invocation != invocation) return true;
  Entry& entry = *found->second;
  end_use(entry);
  if (entry.delivered) return true;
  const auto at = found->second;
  by_key_.erase(found);
  entries_.erase(at);
  return false;
}

bool ContentLedger::knows(const std::string& key) const { return by_key_.contains(key); }

void ContentLedger::deliver_first(const std::string& key, const std::string& before, uint64_t bytes) {
  Entry* entry = find(key);
  if (entry == nullptr) return;
  end_use(*entry);
  if (!entry->delivered) ++delivered_;
  entry->delivered = true;
  entry->before = before;
  entry->bytes += bytes;
  called(key);
}

ContentLedger::Later ContentLedger::deliver_later(const std::string& key, uint64_t invocation,
                                                  const std::string& before, bool has_before) {
  Entry* entry = find(key);
  if (entry == nullptr || entry->invocation != invocation) return Later::kLost;
  end_use(*entry);
  if (!entry->delivered) return Later::kCount;
  called(key);
  return has_before || entry->before == before ? Later::kSupersede : Later::kCount;
}

uint32_t ContentLedger::next_attempt(const std::string& key) {
  Entry* entry = find(key);
  return entry != nullptr ? ++entry->attempts : 1;
}

void ContentLedger::supersede(const std::string& key, const std::optional<std::string>& before, uint64_t bytes) {
  Entry* entry = find(key);
  if (entry == nullptr) return;
  if (before) entry->before = *before;
  entry->bytes += bytes;
}

void ContentLedger::add_outputs(const std::string& key, const std::string& code, const std::string& digest) {
  constexpr size_t kMost = 100000;
  Entry* entry = find(key);
  if (entry == nullptr || digest.empty()) return;
  auto& digests = entry->outputs[code];
  if (digests.size() < kMost) digests.insert(digest);
}

std::optional<ContentLedger::Count> ContentLedger::count(const std::string& key, int64_t calls) {
  Entry* entry = find(key);
  if (entry == nullptr) return std::nullopt;
  entry->duplicates += calls;
  size_t distinct = 0;
  for (const auto& [code, digests] : entry->outputs) distinct = std::max(distinct, digests.size());
  if (entry->delivered) called(key);
  return Count{entry->invocation, entry->duplicates, static_cast<int64_t>(distinct)};
}

std::optional<ContentLedger::Evicted> ContentLedger::evict() {
  if (delivered_ <= keep_) return std::nullopt;
  const auto newest =
      std::find_if(entries_.rbegin(), entries_.rend(), [](const Entry& entry) { return entry.delivered; });
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (!entry->delivered || entry->under_way > 0 || &*entry == &*newest) continue;
    const Evicted evicted{entry->invocation, entry->bytes};
    by_key_.erase(entry->key);
    entries_.erase(entry);
    --delivered_;
    return evicted;
  }
  return std::nullopt;
}

ContentLedger::Forgotten ContentLedger::forget_delivered() {
  Forgotten forgotten{std::exchange(delivered_, 0), 0};
  entries_.remove_if([&](const Entry& entry) {
    if (!entry.delivered) return false;
    by_key_.erase(entry.key);
    forgotten.bytes += entry.bytes;
    return true;
  });
  return forgotten;
}

}  // namespace msda::record
