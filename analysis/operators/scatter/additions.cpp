// The additions to a scattered gradient, as `order` reads their order back.
#include "analysis/model/additions.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/operators/scatter/call.h"

namespace msda::analysis {
namespace {

class ScatterAdditions final : public Additions {
 public:
  explicit ScatterAdditions(const ScatterCall& call) : call_(call) {}

  std::vector<std::string> factor_names() const override {
    std::vector<std::string> names{call_.inputs().front().name};
    for (const std::string& name : call_.names().weights) names.push_back(name);
    if (last_divides()) names.back() = call_.names().divisor;
    return names;
  }
  bool last_divides() const override { return call_.names().divisor != nullptr; }
  std::vector<FactorArithmetic> arithmetics() const override { return call_.factor_arithmetics(); }
  KnownAdditions known(std::string_view kernel) const override { return call_.known(kernel); }
  int64_t family_count() const override { return 1; }

  std::vector<SharedAddend> addends(int64_t, const FactorArithmetic& by) const override {
    std::vector<SharedAddend> all;
    const size_t last = std::max<size_t>(call_.names().weights.size(), 1) - 1;
    for (int64_t sample = 0; sample < call_.sample_count(); ++sample) {
      call_.send(sample, by, [&](const Contribution& contribution) {
        all.push_back({contribution.target, sample, contribution.corner, contribution.factors});
        if (last_divides()) all.back().factors[last] = contribution.count;
      });
    }
    std::ranges::stable_sort(all, {}, &SharedAddend::target);
    return all;
  }

  std::vector<int64_t> elements_of(int64_t target) const override {
    std::vector<int64_t> elements;
    for (int64_t c = 0; c < call_.to().all_channels(); ++c) elements.push_back(call_.to().flat({target, c}));
    return elements;
  }

  void channel_factors(int64_t sample, std::span<double> factors) const override {
    const Tensor& numbers = call_.source();
    for (size_t c = 0; c < factors.size(); ++c) {
      factors[c] = numbers.at(call_.from().flat({call_.source_of(sample), static_cast<int64_t>(c)}));
    }
  }

  double start(int64_t flat, double before) const override { return call_.start(flat, before); }

  int64_t launch_index(int64_t sample) const override { return call_.source_of(sample); }
  const char* launch_index_name() const override { return call_.names().source; }

  std::string name_of(const SharedAddend& addend) const override {
    const auto corners = call_.names().corners;
    const std::string& corner = corners[static_cast<size_t>(addend.corner)];
    return call_.sample_text(addend.sample) + (corner.empty() ? "" : ", " + corner);
  }

 private:
  const ScatterCall& call_;
};

}  // namespace

// Returns null if sums are divided in the end: their last bits are lost, and with them the order.
std::unique_ptr<Additions> ScatterCall::additions(Gradient) const {
  for (int64_t target = 0; target < to().places(); ++target) {
    if (divisor(to().flat({target, 0}), {}) != 1) return nullptr;
  }
  return std::make_unique<ScatterAdditions>(*this);
}

}  // namespace msda::analysis
