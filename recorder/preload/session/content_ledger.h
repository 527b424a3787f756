// The contents that a recording knows: which invocation holds each of them, how often it came again, and how many
// different results there were. The one authority: what leaves the ledger is told to the writer, which then drops it.
//
// A content is entered when a call begins, and delivered when its bytes are in the spool; a call that fails leaves. Of
// the contents delivered, the ledger keeps those that were called last.
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
  // At most `keep` delivered contents stay known, but for those with a call under way.
  explicit ContentLedger(size_t keep) : keep_(keep) {}

  struct Entered {
    uint64_t invocation = 0;
    bool known = false;        // delivered, or on its way by a call before
    bool same_before = false;  // and the output buffers recorded with it held what they hold now
  };
  // A call of this content begins. `before` names what its output buffers hold. Every enter() wants one deliver() or
  // leave().
  Entered enter(const std::string& key, const std::string& before);
  // A call that was entered under this invocation did not take place, or could not be copied. False if the content was
  // known by it alone, and so is forgotten.
  bool leave(const std::string& key, uint64_t invocation);

  // Whether a call of it was delivered, or is under way.
  bool knows(const std::string& key) const;

  // A call that was entered as new is in the spool, with what its output buffers held before.
  void deliver_first(const std::string& key, const std::string& before, uint64_t bytes);
  // A call that was entered as known has ended. Returns what is to be done with its record.
  enum class Later {
    kSupersede,  // it may take the place of the one before
    kCount,      // it can only be counted: what would complete its record is not in the spool (yet), or no longer
    kLost        // the call that held its inputs failed: nothing tells of this one
  };
  Later deliver_later(const std::string& key, uint64_t invocation, const std::string& before, bool has_before);
  // The number of the next record that takes the place of the first; from 1 on.
  uint32_t next_attempt(const std::string& key);
  // It is in the spool; `before` if it has the output buffers.
  void supersede(const std::string& key, const std::optional<std::string>& before, uint64_t bytes);

  // Results of the same code on the same content should be equal; an empty digest is none.
  void add_outputs(const std::string& key, const std::string& code, const std::string& digest);
  // Calls that were not kept. Their number so far and that of different results; nothing if the content is not known.
  struct Count {
    uint64_t invocation = 0;
    int64_t duplicates = 0, distinct_outputs = 0;
  };
  std::optional<Count> count(const std::string& key, int64_t calls);

  // The next content to forget, if there are more than are kept: that which was called least recently.
  struct Evicted {
    uint64_t invocation = 0, bytes = 0;
  };
  std::optional<Evicted> evict();

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
