// Contents that were seen, by the digests of their inputs: which invocation holds them, how often they came again, and
// how many different results there were.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>

namespace msda::record {

class Seen {
 public:
  struct Entry {
    std::string key;
    std::string before;  // what the output buffers held the first time
    uint64_t invocation = 0;
    int64_t duplicates = 0;
    uint32_t attempts = 0;
    // Results by what should have given equal ones: the same code on the same content.
    std::map<std::string, std::set<std::string>> outputs;

    int64_t distinct_outputs() const {
      size_t most = 0;
      for (const auto& [code, digests] : outputs) most = std::max(most, digests.size());
      return static_cast<int64_t>(most);
    }
    void add_outputs(const std::string& code, const std::string& digest) {
      constexpr size_t kMost = 100000;
      if (!digest.empty() && outputs[code].size() < kMost) outputs[code].insert(digest);
    }
  };

  Entry* find(const std::string& key) {
    const auto found = std::ranges::find(entries_, key, &Entry::key);
    return found != entries_.end() ? &*found : nullptr;
  }
  // Those not seen for longest go when they grow many.
  Entry& add(const std::string& key, uint64_t invocation) {
    constexpr size_t kMost = 256;
    if (entries_.size() == kMost) entries_.pop_front();
    entries_.push_back({key, "", invocation, 0, 0, {}});
    return entries_.back();
  }
  void remove(const std::string& key) {
    std::erase_if(entries_, [&](const Entry& entry) { return entry.key == key; });
  }

 private:
  std::deque<Entry> entries_;
};

}  // namespace msda::record
