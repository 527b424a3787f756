// The other calls of a capture: which one of equal inputs a test compared one with, and those before it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "recorder/capture/isolated_reader.h"
#include "replay/base/options.h"
#include "replay/calls/earlier_results.h"
#include "replay/calls/settle.h"

namespace msda::replay {

// A recorded test calls the kernel under test and, on the same inputs, what it compares it with. If the second is of
// the dialect that most tests compare with and the first is not, the second is the first one's reference, unless the
// capture or --reference says otherwise, or there are more than 64 calls from one to the other. If the capture says
// what a call was compared with, and another call on the same inputs gave these numbers, this is the reference. If two
// other calls have equal inputs, nothing shows which of them is the reference.
class Pairing {
 public:
  // Throws BadInput where --reference names a call of other inputs.
  Pairing(const Options& options, const capture::IsolatedReader& reader);

  // Returns the invocations to explain: those chosen, but in place of a reference what was compared with it. Ascending.
  const std::vector<int64_t>& chosen() const { return chosen_; }
  // Returns one of them as it is compared: with another one's outputs as its reference, where there is one.
  capture::Invocation invocation(int64_t id) const;
  // Returns the paths of altered tensors of the calls that stand beside it: its reference, and others of equal inputs
  // that are not explained themselves because of it. Their digests say that their inputs are equal, so all of their
  // tensors are read.
  std::vector<std::string> altered_beside(int64_t id) const;
  // Returns how it was paired, and by which conventions that fit it is replayed, in sentences.
  std::vector<std::string> notes(int64_t id) const;
  const EarlierResults& earlier() const { return earlier_; }

 private:
  // Returns the invocation with its reference, if it has one in another call.
  capture::Invocation paired(int64_t id) const;
  void pair_as_asked(const std::vector<int64_t>& chosen, bool all);
  void pair_by_dialect(const std::vector<int64_t>& chosen);
  size_t place_of(int64_t id) const;
  std::vector<int64_t> around(const std::vector<int64_t>& chosen) const;
  void pair_equals(const std::vector<capture::Invocation>& equals);

  const Options& options_;
  const capture::IsolatedReader& reader_;
  const EarlierResults earlier_{reader_};
  std::vector<int64_t> chosen_;
  std::map<int64_t, int64_t> reference_of_;            // by the call that is compared with it
  std::map<int64_t, int64_t> compared_with_;           // of a reference: a call that is compared with it
  std::map<int64_t, std::vector<int64_t>> undecided_;  // calls of equal inputs, but other outputs
  mutable std::map<int64_t, Settled> settled_;         // by the calls that were asked for
};

}  // namespace msda::replay
