// The conventions of compiled kernels whose launches do not show them, determined once for each image of code.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/msda.h"
#include "recorder/writer/confirm.h"

namespace msda::record {

class ConventionsOfKernels {
 public:
  // Returns the image's conventions, if they are known: once the outputs of one call have decided them, they hold for
  // all calls, because they are constants of the image. `image` is the digest of the kernel's image, or empty if it is
  // not known.
  std::optional<Conventions> known(uint64_t invocation, const std::string& image) const;
  // Determines them from a call's tensors; nothing if no conventions explain the outputs. If a call leaves them open,
  // later calls with equal inputs do, too.
  std::optional<Conventions> find(uint64_t invocation, const std::string& image, msda_dialect dialect,
                                  const std::map<std::string, msda_tensor>& tensors);

  // Notes a call that other conventions explain as well.
  void note_ambiguous(const std::string& image, const std::string& kernel, int64_t invocation);
  // Returns the invocations whose conventions were open when they were written and were decided by a later call.
  std::vector<std::pair<int64_t, Conventions>> decided_later() const;
  // Returns the number of invocations that are still open, by kernel.
  std::map<std::string, int64_t> ambiguous() const;
  // Called when the capture of the noted invocations has ended; if it was kept, ambiguous() goes on counting the open
  // ones.
  void begin_next_capture(bool kept);

 private:
  struct Open {
    std::string image, kernel;
    int64_t invocation;
  };
  std::map<std::string, Conventions> decided_;
  std::map<std::pair<uint64_t, std::string>, Conventions> undecided_;
  std::vector<Open> open_;
  std::map<std::string, int64_t> ambiguous_earlier_;  // in captures that have ended
};

}  // namespace msda::record
