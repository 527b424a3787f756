// The state of a recording that has started. In a forked child it is neither used nor destroyed: another thread of the
// parent may have been changing it.
#pragma once

#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "recorder/preload/session/content_ledger.h"
#include "recorder/preload/session/frame_stream.h"
#include "recorder/preload/session/recording.h"
#include "recorder/preload/session/target_ring.h"
#include "recorder/preload/session/writer_process.h"

namespace msda::record {

struct Recording::State {
  explicit State(const Config& settings);

  void append_count(const std::optional<ContentLedger::Count>& count);
  void forget_evicted();
  void write(LaunchRecord record);
  uint64_t append(const LaunchRecord& record, uint32_t attempt, const RingBlock* block);
  void forget_read();
  // Called when the writer has ended: appends to the spool what it has left in the shared memory. Returns how many
  // launches the writer had only in its own memory, as with --keep last:K.
  size_t write_unread();
  void write_held();
  void deliver(LaunchRecord&& record);
  // Ends the capture: keeps or discards the calls delivered so far. Returns the cut's number, or 0 if there are none.
  uint64_t cut(bool keep);

  const Config& config;
  FrameStream frames;
  TargetRing ring;
  WriterProcess writer;
  std::atomic<bool> writer_reads{false};  // the shared memory

  std::mutex mutex;  // guards the members below
  ContentLedger ledger;
  struct HandedOver {
    LaunchRecord record;
    uint32_t attempt;
  };
  std::deque<HandedOver> unread;                      // launches whose block the writer has not freed
  std::set<uint64_t> read;                            // with --keep last:K: invocations that the writer holds
  std::optional<LaunchRecord> held;                   // its content is recorded already
  std::map<std::string, std::set<std::string>> code;  // in the spool: functions, by their image's digest
  std::set<std::string> missed;                       // kernels for which report_missed_launch() has warned
  uint64_t told_missing = 0;                          // launches that say_missing() has reported
  uint64_t cuts = 0;
  uint64_t unknown_bytes = 0;  // of this capture's calls that have left the ledger
};

}  // namespace msda::record
