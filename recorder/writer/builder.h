// Turns a spool into a capture file, one invocation at a time as soon as it is complete.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "recorder/capture/writer.h"
#include "recorder/spool/archive.h"
#include "recorder/spool/follower.h"
#include "recorder/spool/news.h"
#include "recorder/writer/conventions.h"
#include "recorder/writer/payloads.h"
#include "recorder/writer/stages.h"
#include "recorder/writer/trail_builder.h"

namespace msda::record {

class Builder {
 public:
  struct Settings {
    std::string spool, output;
    bool force = false;     // replace an output that exists
    int64_t keep_last = 0;  // 0: all
    std::string tool_version;
    bool release = true;     // free the spool's disk space once its content is in the capture
    int shared_memory = -1;  // descriptor of the memory shared with the target; -1 if there is none
    Stages stages = Stages::kNone;
    bool cuts = false;  // end captures where the target does; otherwise all calls go into one
  };
  // Throws spool::Error or capture::Error, as all functions below do.
  explicit Builder(const Settings& settings);

  // Processes what the spool holds now, up to a cut. Returns true if there was a cut: the target awaits its answer, and
  // there may be more.
  bool follow();
  // Called when the spool has ended: writes held calls, and closes the file.
  void finish();

  std::string output() const;                            // the name of the last capture that was begun
  int64_t invocations() const { return written_; }       // in the capture since the last cut
  int64_t completed() const { return completed_; }       // in the captures that cuts completed
  bool has_discarded() const { return has_discarded_; }  // a cut's calls
  // Returns the last cut that completed a capture.
  const spool::CutDone& last_cut() const { return last_cut_; }
  int64_t trailed() const { return trail_.launches(); }
  // Returns whether the process may have launched more than its trail has, as if it was killed.
  bool trail_ended_early() const { return !trail_.trail().is_empty() && !trail_.is_complete(); }
  int64_t surveyed() const { return static_cast<int64_t>(surveyed_.size()); }         // kernels, in the capture
  bool has_more() const { return !surveyed_.empty() || !trail_.trail().is_empty(); }  // than calls
  int64_t unfinished() const { return static_cast<int64_t>(open_.size()); }           // begun and not ended
  // Returns the number of complete calls, and of those whose tensors are in the spool.
  int64_t ended() const { return ended_; }
  int64_t ended_in_spool() const { return ended_in_spool_; }
  int64_t lost() const { return static_cast<int64_t>(lost_.size()); }  // complete, but their bytes are gone
  // Returns the calls that were not written, by kernel, because no known conventions explain their outputs (confirm.h).
  const std::map<std::string, int64_t>& unexplained() const { return unexplained_; }
  // Returns the calls, by kernel, whose outputs do not decide padding_mode or align_corners.
  std::map<std::string, int64_t> ambiguous() const { return conventions_.ambiguous(); }
  // Calls, by kernel, that were written without the requested stages, and the reason for the first of them.
  struct Stageless {
    int64_t count = 0;
    std::string why;
  };
  const std::map<std::string, Stageless>& stageless() const { return stageless_; }
  // Returns the calls for which the disk had no space, and whether the spool still holds any of them.
  int64_t without_room() const { return without_room_; }
  bool spool_holds_more() const { return spool_holds_more_; }
  spool::Missing missing() const { return payloads_.missing(); }
  // Returns whether the disk had no space for the run's facts, its seeds and the counts of equal calls.
  bool without_run() const { return without_run_; }
  uint64_t trailing_bytes() const { return spool_.trailing_bytes(); }  // of an incomplete frame

 private:
  // Names a function: several may be in one image.
  struct Function {
    std::string image;  // its digest
    std::string name;
    friend auto operator<=>(const Function&, const Function&) = default;
  };
  struct Code {
    spool::Kernel kernel;
    bool written = false, is_launched = false;  // in this capture: its facts; a call of it
  };
  struct Pending {
    spool::Begin begin;
    std::vector<spool::Frame> begin_frames;  // of this call, and of earlier calls that it replaces
    std::vector<Item> tensors;
    spool::Parameters parameters;
    std::vector<std::byte> parameter_bytes;
    std::map<std::string, std::string> digests;
    bool ambiguous = false;  // other conventions give the same outputs

    std::vector<Item>::iterator find(const spool::Tensor& tensor);
  };
  // A written invocation whose inputs will be read again.
  struct Call {
    capture::CallFacts facts;
    std::vector<tensors::Description> inputs;
  };
  // Identifies an invocation. Calls of one invocation of the target may turn out to follow different conventions; then
  // they are different invocations in the capture.
  using Id = std::tuple<uint64_t, std::string, int64_t>;

  // Does the work, and names the spool in the message of an error.
  template <class Work>
  auto named(const Work& work) const {
    try {
      return work();
    } catch (const spool::Error& e) {
      throw spool::Error(settings_.spool + ": " + e.what());
    }
  }
  static Id id_of(const Pending& pending);
  void take(const spool::Frame& frame);
  void begin(spool::Begin begin, const spool::Frame& frame);
  void add(spool::Tensor tensor, const spool::Frame& frame);
  // Returns the open invocation to which a message belongs, or null.
  template <class Message>
  Pending* find_open(const Message& message) {
    const auto found = open_.find({message.invocation, message.attempt});
    return found != open_.end() ? &found->second : nullptr;
  }
  void complete(const spool::End& end);
  void drop_invocation(uint64_t invocation);
  void called_again(uint64_t invocation);
  void drop_more_than_are_kept();
  bool is_discarded();
  bool may_be_discarded(const Pending& pending) const;
  void write_held();
  void cut(const spool::Cut& cut);
  void complete_capture();
  void close_capture();
  void discard_capture();
  void begin_next_capture();
  void release_written_frames();
  bool settle(Pending& pending);
  std::vector<Item> inputs_of(uint64_t invocation);
  bool has_room_for(const Pending& pending);
  void leave_out(Pending& pending);
  bool write(Pending& pending);
  static Function function_of(const Pending& pending);
  Code* find_code(const Pending& pending);
  void write_code(const Pending& pending);
  int64_t image_bytes_to_write(const std::string& digest) const;
  void write_function(Code& code);
  void write_variants();
  void write_superseding(Pending& pending);
  void replace(int64_t number, Pending& pending);
  void write_sharing_inputs(int64_t first, Pending& pending);
  void merge(Pending& held, Pending& later);
  void drop(Pending& pending);
  void keep_until_closed(Pending& pending);
  void add_tensors(const Pending& pending);
  void hold(Pending pending);
  Pending* find_held(uint64_t invocation);
  Pending* find_held(const Id& id);
  void write_run();
  void write_survey();
  void write_trail();
  void write_stages();
  capture::Writer& writer();

  Settings settings_;
  spool::Follower spool_;
  Payloads payloads_;
  ConventionsOfKernels conventions_;
  std::unique_ptr<capture::Writer> writer_;  // created when there is something to write
  spool::Run run_;
  std::vector<capture::Seed> seeds_;  // until the end, `invocation` counts invocations begun, not written
  uint64_t begun_ = 0;
  std::map<Function, Code> code_;
  std::map<std::string, spool::Frame> images_;                // by digest: several functions may be in one
  std::set<std::string> images_written_;                      // in this capture; digests
  std::set<std::string> kernels_written_, unexplained_code_;  // names; digests
  std::map<std::pair<uint64_t, uint32_t>, Pending> open_;
  // Complete calls that are not written yet: with keep_last, and those that may be discarded.
  std::deque<Pending> held_;
  std::map<Id, int64_t> number_;  // of written invocations
  std::map<uint64_t, int64_t> first_number_;
  std::map<int64_t, Call>
      calls_;  // by number: with stages all written ones, otherwise those with undetermined conventions
  std::vector<spool::Frame> in_capture_;  // frames of written calls
  std::map<uint64_t, spool::Count> counts_;
  std::map<uint64_t, spool::Surveyed> surveyed_;  // by their numbers
  TrailBuilder trail_;
  std::map<std::string, int64_t> unexplained_;
  std::map<std::string, Stageless> stageless_;
  std::set<std::pair<uint64_t, uint32_t>> lost_;  // their bytes were in memory that is gone, and have not come again
  int64_t written_ = 0, completed_ = 0, without_room_ = 0, ended_ = 0, ended_in_spool_ = 0;
  spool::CutDone last_cut_;
  uint64_t cuts_kept_ = 0, renamed_ = 0;  // see CutDone
  bool spool_holds_more_ = false, without_run_ = false, has_discarded_ = false;
};

}  // namespace msda::record
