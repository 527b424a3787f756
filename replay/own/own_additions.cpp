// The additions to an output of the user's own operator, as `order` reads their order back: each addend as it is
// computed, as if it were one factor. Kernels may compute it in other roundings, which is why nothing is impossible.
#include <algorithm>
#include <map>
#include <mutex>

#include "analysis/model/additions.h"
#include "replay/own/own_call.h"

namespace msda::replay {

using analysis::FactorArithmetic;
using analysis::Gradient;
using analysis::KnownAdditions;
using analysis::SharedAddend;

namespace {

constexpr int64_t kMostAddends = int64_t{1} << 24;  // a table of all of them

class OwnAdditions final : public analysis::Additions {
 public:
  OwnAdditions(const OwnCall& call, Gradient gradient) : call_(call), gradient_(gradient) {
    const int64_t elements = kernels::elements_of(call.shape_of(gradient));
    for (int64_t flat = 0; flat < elements; ++flat) elements_of_[call.weights_of(gradient, flat)].push_back(flat);
  }

  std::vector<std::string> factor_names() const override { return {"addend"}; }
  std::vector<FactorArithmetic> factor_arithmetics() const override { return {{"as written", call_.arithmetic(), 0}}; }
  KnownAdditions known(std::string_view) const override {
    KnownAdditions known;
    known.products = {"addend"};
    known.text = "each addend of " + call_.operator_name() + " is taken to be added by itself";
    return known;
  }

  int64_t family_count() const override { return 1; }

  // Numbers addends through all targets: each sample is one.
  std::vector<SharedAddend> shared_addends(int64_t, const FactorArithmetic&) const override {
    make_table();
    std::vector<SharedAddend> all;
    all.reserve(table_.size());
    for (size_t i = 0; i < table_.size(); ++i) all.push_back({table_[i].target, static_cast<int64_t>(i), 0, {}});
    return all;
  }

  std::vector<int64_t> elements_of(int64_t target) const override { return elements_of_.at(target); }

  void channel_factors(int64_t sample, std::span<double> factors) const override {
    make_table();
    const auto& first = table_[static_cast<size_t>(sample)].first_value;
    std::copy_n(values_.begin() + static_cast<std::ptrdiff_t>(first), factors.size(), factors.begin());
  }

  // Returns 0 for an element that begins with itself: that is one of its addends.
  double start(int64_t, double before) const override { return call_.begins_with_itself(gradient_) ? 0 : before; }

  int64_t launch_index(int64_t sample) const override {
    make_table();
    return table_[static_cast<size_t>(sample)].number;
  }
  const char* launch_index_name() const override { return "addend"; }
  std::string addend_name(const SharedAddend& addend) const override {
    make_table();
    return call_.name_of_term(gradient_, table_[static_cast<size_t>(addend.sample)].number);
  }

 private:
  struct Entry {
    int64_t target, number;
    size_t first_value;
  };

  void make_table() const {
    std::call_once(made_, [&] {
      analysis::Cache cache;
      for (const auto& [target, elements] : elements_of_) {
        const size_t first = values_.size(), channels = elements.size();
        for (size_t c = 0; c < channels; ++c) {
          const analysis::ElementId id{gradient_, elements[c], {}};
          const std::vector<double> addends = call_.addends(id, cache).values;
          if (c == 0) {
            values_.resize(first + addends.size() * channels);
            size_t next = first;
            call_.computed_terms(id, cache, [&](const analysis::Term& term) {
              table_.push_back({target, term.number, next});
              next += channels;
            });
          }
          // Channels whose addends are others than the first one's are no channels: the definition says they are.
          for (size_t i = 0; i < addends.size() && first + i * channels + c < values_.size(); ++i) {
            values_[first + i * channels + c] = addends[i];
          }
        }
      }
    });
  }

  const OwnCall& call_;
  Gradient gradient_;
  std::map<int64_t, std::vector<int64_t>> elements_of_;  // by target
  mutable std::once_flag made_;
  mutable std::vector<Entry> table_;
  mutable std::vector<double> values_;  // [entry][channel]
};

}  // namespace

std::shared_ptr<const analysis::Additions> OwnCall::additions(Gradient gradient) const {
  if (term_count(gradient.place()) > kMostAddends) return nullptr;
  return std::make_shared<OwnAdditions>(*this, gradient);
}

}  // namespace msda::replay
