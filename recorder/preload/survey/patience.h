// How long a survey waits for work of the device's, which may wait for something that the program is about to do. The
// total time waited in vain is bounded, however often that happens.
#pragma once

#include <algorithm>

namespace msda::record {

class Patience {
 public:
  // How long to wait, in seconds: `first` the first time, then less each time, down to `least`; after a success more
  // again, up to `later`.
  constexpr Patience(double first, double later, double least) : now_(first), later_(later), least_(least) {}

  double seconds() const { return now_; }
  // Returns its argument: whether the work ended in time.
  bool note(bool in_time) {
    now_ = in_time ? std::max(now_, std::min(2 * now_, later_)) : std::max(least_, std::min(now_, 2 * later_) / 2);
    return in_time;
  }

 private:
  double now_, later_, least_;
};

}  // namespace msda::record
