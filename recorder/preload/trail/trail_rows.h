// The rows of a trail, until the writer has them: each waits for its digests, and is delivered after all before it.
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
  // Entries of the lists; equal ones are one.
  uint32_t kernel(const SurveyedKernel& kernel);
  uint32_t configuration(const Launched& launched);
  uint32_t caller(const Caller& caller, const std::string& label);
  uint32_t parts(const std::string& text);
  uint32_t parameters(const std::vector<std::byte>& bytes);  // always a new one

  // Appends a row; its number. `place` tells launches at other addresses apart, as far as this process goes.
  uint64_t append(const spool::TrailRow& row, uint64_t place);
  // A word of the parameters of the last row that is another one than the list's.
  void changed_word(uint32_t offset, uint64_t word);
  // The row is not complete before as much has arrived. What comes for a row that has been given up is left.
  void awaits(uint64_t row);
  void arrived(uint64_t row);
  // The digest of a part of what it wrote.
  void add(uint64_t row, uint32_t part, const Digest& digest, uint64_t bytes);
  // What was digested, where that is known only now.
  void learnt(uint64_t row, uint32_t parts, bool is_sparse);
  // Something will not arrive, and so the row has no digest.
  void failed(uint64_t row);
  // A launch has no row.
  void missed() { ++part_.missing; }

  // Moves complete rows to the next message.
  void collect();
  // Whether so many rows wait that the writer should have them.
  bool has_many() const { return collected_.size() >= kMany; }
  // Delivers what is collected, if there is anything.
  void deliver();
  // The process ends: what has not come will not.
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
  // Null: it does not wait any more.
  Waiting* waiting(uint64_t row) { return row - first_ < waiting_.size() ? &waiting_[row - first_] : nullptr; }
  static bool is_like(const Waiting& a, const Waiting& b);
  void mark_if_repeated(Waiting& row);

  std::deque<Waiting> waiting_;
  uint64_t first_ = 0;        // the number of the first that waits
  std::deque<Waiting> last_;  // that were collected
  std::vector<spool::TrailRow> collected_;
  std::vector<std::byte> parameter_bytes_;
  spool::TrailPart part_;  // of the next message
  std::map<std::pair<std::string, std::string>, uint32_t> kernels_;
  std::map<std::vector<uint64_t>, uint32_t> configurations_;
  std::map<std::vector<std::string>, uint32_t> callers_;
  std::map<std::string, uint32_t> parts_;
  uint32_t parameters_ = 0;
};

}  // namespace msda::record
