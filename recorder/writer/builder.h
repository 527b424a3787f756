// From a spool to a capture file, an invocation at a time as they become whole.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "recorder/capture/writer.h"
#include "recorder/spool/follower.h"
#include "recorder/writer/stages.h"

namespace msda::record {

class Builder {
 public:
  struct Settings {
    std::string spool, output;
    bool force = false;     // replace an output that exists
    int64_t keep_last = 0;  // 0: all
    std::string tool_version;
    bool release = true;  // give the spool's space back once its content is in the capture
    Stages stages = Stages::kNone;
  };
  // Throws spool::Error or capture::Error, as all of these do.
  explicit Builder(const Settings& settings);

  // Takes what the spool has now.
  void follow();
  // The spool has ended: writes what was held back, and closes the file.
  void finish();

  int64_t invocations() const { return written_; }
  int64_t unfinished() const { return static_cast<int64_t>(open_.size()); }  // begun, and never ended
  // Calls that were not written, by kernel: no conventions that are known explain their outputs (confirm.h).
  const std::map<std::string, int64_t>& unexplained() const { return unexplained_; }
  // Calls, by kernel, whose padding_mode or align_corners their outputs leave open.
  const std::map<std::string, int64_t>& ambiguous() const { return ambiguous_; }
  // Calls, by kernel, that were written without the stages that were asked for, and why the first of them was.
  struct Stageless {
    int64_t count = 0;
    std::string why;
  };
  const std::map<std::string, Stageless>& stageless() const { return stageless_; }
  uint64_t trailing_bytes() const { return spool_.trailing_bytes(); }  // of a frame that is not whole

 private:
  static constexpr int64_t kHeldBack = 8;
  struct Item {
    spool::Tensor tensor;
    spool::Frame frame;
  };
  struct Pending {
    spool::Begin begin;
    spool::Frame begin_frame;
    std::vector<Item> tensors;
    spool::Parameters parameters;
    spool::Frame parameter_frame;
  };

  void take(const spool::Frame& frame);
  Pending* find(uint64_t invocation);  // begun and not yet written, or null
  void complete(uint64_t invocation);
  bool confirmed(Pending& pending);
  void write(const Pending& pending);
  void write_stages(const Pending& pending, const capture::CallFacts& facts);
  void release(const Pending& pending);
  capture::Writer& writer();

  Settings settings_;
  spool::Follower spool_;
  std::unique_ptr<capture::Writer> writer_;  // made with the first thing to write
  spool::Run run_;
  std::vector<capture::Seed> seeds_;
  std::map<uint64_t, Pending> open_;
  std::deque<Pending> held_;            // whole; the last ones' outputs may still be replaced by those of equal calls
  std::map<uint64_t, int64_t> number_;  // of the invocations written
  std::map<uint64_t, spool::Count> counts_;
  std::map<std::string, int64_t> unexplained_, ambiguous_;
  std::map<std::string, Stageless> stageless_;
  int64_t written_ = 0;
};

}  // namespace msda::record
