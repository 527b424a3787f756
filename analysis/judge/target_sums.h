// Elements of a scattered gradient, with the addends of each.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "analysis/judge/groups.h"

namespace msda::analysis {

// Returns at most so many of the elements, spread evenly.
std::vector<int64_t> some_of(const std::vector<ElementRun>& runs, int64_t elements, int64_t most);

class TargetSums {
 public:
  // Empty if the operator does not say what it adds, or if that is too much to look at. The call must outlive this.
  TargetSums(const Call& call, Gradient gradient, const std::vector<int64_t>& flats);

  bool empty() const { return sums_.empty(); }
  size_t size() const { return sums_.size(); }
  int64_t flat(size_t i) const { return sums_[i].flat; }
  std::string source_name() const { return additions_->factor_names().front(); }
  const Additions& additions() const { return *additions_; }

  struct Addend {
    int64_t launched;  // when its sample is
    double weight;     // of the number of the source
    double number;

    double value() const { return weight * number; }
  };
  // Returns the addends of an element, as launched.
  std::vector<Addend> addends(size_t i) const { return addends_of(*additions_, sums_[i]); }
  // Returns them with the numbers that the same call has with another source.
  std::vector<Addend> addends(size_t i, const Call& changed) const {
    return addends_of(*changed.additions(gradient_), sums_[i]);
  }
  // Returns whether addends may be divided by this number, so that a kernel may have left that out.
  bool may_divide_by(double count) const;
  // Returns elements to which samples launched from `first` on are added, at most so many.
  std::vector<int64_t> reached_from(int64_t first, size_t most) const;

 private:
  struct Sum {
    int64_t flat, family, target;
    size_t channel, channels;
  };
  std::vector<Addend> addends_of(const Additions& additions, const Sum& sum) const;

  Gradient gradient_;
  std::shared_ptr<const Additions> additions_;
  std::map<int64_t, std::vector<SharedAddend>> families_;
  std::vector<Sum> sums_;
};

}  // namespace msda::analysis
