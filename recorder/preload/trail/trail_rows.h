// The rows of a trail until the writer has them: each waits for its digests, and is delivered after all rows before it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "recorder/preload/driver/digester.h"
#include "recorder/preload/survey/caller.h"
#include "recorder/preload/survey/surveyed_kernel.h"
#include "recorder/spool/messages.h"

namespace msda::record {

// Not thread-safe.
class TrailRows {
 public:
  // Return entries of the lists; equal ones share an entry.
  uint32_t kernel(const SurveyedKernel& kernel);
  uint32_t configuration(const Launched& launched);
  uint32_t caller(const Caller& caller, const std::string& label);
  uint32_t parts(const std::string& text);
  uint32_t parameters(const std::vector<std::byte>& bytes);  // always a new one

  // Appends a row, and returns its number. `place` distinguishes launches at other addresses within this process.
  uint64_t append(const spool::TrailRow& row, uint64_t place);
  // Adds a word of the last row's parameters that differs from the list's.
  void changed_word(uint32_t offset, uint64_t word);
  // Makes the row wait for one more part. Parts for a row that was given up are ignored.
  void awaits(uint64_t row);
  void arrived(uint64_t row);
  // Adds the digest of a part of what it wrote.
  void add(uint64_t row, uint32_t part, const Digest& digest, uint64_t bytes);
  // Adds what was digested, if that becomes known only now.
  void learnt(uint64_t row, uint32_t parts, bool is_sparse);
  // Marks a row without digest, because a part of it will not arrive.
  void failed(uint64_t row);
  // Counts a launch that has no row.
  void missed() { ++part_.missing; }

  // Moves complete rows to the next message.
  void collect();
  // Returns whether enough rows wait to be delivered to the writer.
  bool has_many() const { return collected_.size() >= kMany; }
  // Delivers what is collected, if there is anything, or if it is the last of the process.
  void deliver(bool is_last = false);
  // Gives up what has not arrived, because the process ends.
  void give_up();

  uint64_t next() const { return first_ + waiting_.size(); }

 private:
  static constexpr size_t kMany = 4096;
  struct Waiting {
    spool::TrailRow row;
    uint64_t place = 0;
    int awaited = 0;
    bool has_failed = false;
  };
  // Returns null if the row no longer waits.
  Waiting* waiting(uint64_t row) { return row - first_ < waiting_.size() ? &waiting_[row - first_] : nullptr; }
  static bool is_like(const Waiting& a, const Waiting& b);
  void mark_if_repeated(Waiting& row);

  std::deque<Waiting> waiting_;
  uint64_t first_ = 0;        // the number of the first that waits
  std::deque<Waiting> last_;  // that were collected
  std::vector<spool::TrailRow> collected_;
  std::vector<std::byte> parameter_bytes_;
  spool::TrailPart part_;  // the next message
  std::map<std::pair<std::string, std::string>, uint32_t> kernels_;
  std::map<std::vector<uint64_t>, uint32_t> configurations_;
  std::map<std::vector<std::string>, uint32_t> callers_;
  std::map<std::string, uint32_t> parts_;
  uint32_t parameters_ = 0;
};

}  // namespace msda::record
