// How long a survey waits for work of the device's, which may wait for something that the program is about to do. What
// it waits for in vain, all in all, is bounded, however often that happens.
#pragma once

#include <algorithm>

namespace msda::record {

class Patience {
 public:
  // The first time; then less each time, down to `least`; and after a success again more, up to `later`.
  constexpr Patience(double first, double later, double least) : now_(first), later_(later), least_(least) {}

  double seconds() const { return now_; }
  // Returns what it was told: whether the work came to its end in time.
  bool note(bool in_time) {
    now_ = in_time ? std::max(now_, std::min(2 * now_, later_)) : std::max(least_, std::min(now_, 2 * later_) / 2);
    return in_time;
  }

 private:
  double now_, later_, least_;
};

}  // namespace msda::record
