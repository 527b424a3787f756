// The contents that a recording knows: which invocation holds each of them, how often it was repeated, and how many
// different results there were. Contents that leave the ledger are reported to the writer, which then drops them.
//
// A call's content is registered when the call begins, and delivered when its bytes are in the spool; a failed call is
// abandoned. The ledger keeps the delivered contents that were called most recently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

namespace msda::record {

// Not thread-safe: Recording guards it.
class ContentLedger {
 public:
  // Keeps at most `keep` delivered contents, not counting those with a call under way.
  explicit ContentLedger(size_t keep) : keep_(keep) {}

  struct Registration {
    uint64_t invocation = 0;
    bool known = false;        // an earlier call of it was delivered or is under way
    bool same_before = false;  // and the output buffers recorded with it held the same
  };
  // Called when a call of this content begins. `before` identifies what its output buffers hold. Each register_call()
  // must be followed by one deliver_...() or abandon_call().
  Registration register_call(const std::string& key, const std::string& before);
  // Called if a call that was registered under this invocation did not take place, or could not be copied. Returns
  // false if no other call had this content, which is then forgotten.
  bool abandon_call(const std::string& key, uint64_t invocation);

  // Returns whether a call of this content was delivered or is under way.
  bool knows(const std::string& key) const;

  // Called when a call that was registered as new is in the spool; `before` identifies what its output buffers held.
  void deliver_first(const std::string& key, const std::string& before, uint64_t bytes);
  // Called when a call that was registered as known has ended. Returns what to do with its record.
  enum class Later {
    kSupersede,  // it may replace the earlier record
    kCount,      // it can only be counted: what would complete its record is not in the spool
    kLost        // the call that held its inputs failed: this one is lost, too
  };
  Later deliver_later(const std::string& key, uint64_t invocation, const std::string& before, bool has_before);
  // Returns the number of the next record that replaces the first; from 1 on.
  uint32_t next_attempt(const std::string& key);
  // Called when that record is in the spool; `before` if it has the output buffers.
  void supersede(const std::string& key, const std::optional<std::string>& before, uint64_t bytes);

  // Notes a result. Results of the same code on the same content should be equal; an empty digest is ignored.
  void add_outputs(const std::string& key, const std::string& code, const std::string& digest);
  // Counts calls that were not recorded. Returns their number so far and that of different results; nothing if the
  // content is not known.
  struct Count {
    uint64_t invocation = 0;
    int64_t duplicates = 0, distinct_outputs = 0;
  };
  std::optional<Count> count(const std::string& key, int64_t calls);

  // Evicts the content that was called least recently, if there are more than `keep`.
  struct Evicted {
    uint64_t invocation = 0, bytes = 0;
  };
  std::optional<Evicted> evict();
  // Forgets all delivered contents, because their capture ends here. First calls that are under way stay; repeated ones
  // are lost.
  struct Forgotten {
    size_t contents = 0;
    uint64_t bytes = 0;
  };
  Forgotten forget_delivered();

 private:
  struct Entry {
    std::string key, before;
    uint64_t invocation = 0, bytes = 0;
    int64_t duplicates = 0;
    uint32_t attempts = 0, under_way = 0;
    bool delivered = false;
    std::map<std::string, std::set<std::string>> outputs;  // by code
  };
  using Entries = std::list<Entry>;

  Entry* find(const std::string& key);
  void end_use(Entry& entry);
  void called(const std::string& key);

  size_t keep_, delivered_ = 0;
  uint64_t next_invocation_ = 0;
  Entries entries_;  // in the order of their last calls
  std::unordered_map<std::string, Entries::iterator> by_key_;
};

}  // namespace msda::record
