// Operators that scatter: each source adds, channel by channel, its element of one tensor times some factors to targets
// of the single gradient. The factors depend on no floating-point input but coordinates, and are equal for all
// channels, so that all is linear in the source.
//
//     gradient[target, channel] = (held[target, channel] + sum over contributions source[channel] * factors) / divisor
//
// An operator derived from this names its tensors, the contributions of a source and what is peculiar to it.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/model/defined_call.h"
#include "analysis/model/kernels.h"
#include "analysis/model/stages.h"
#include "analysis/operators/scatter/layout.h"

namespace msda::analysis {

// As a kernel computes it.
struct Contribution {
  int64_t target, source;
  int32_t corner = 0;  // which of the sample's
  std::array<double, kMostSharedFactors> factors{1, 1, 1};
  double count = 1;  // what kernels divide by where the last factor is one over it
};
using VisitContribution = std::function<void(const Contribution&)>;

// In exact arithmetic.
struct ExactContribution {
  int64_t target;
  double weight;
  double error = 0;        // bound on what rounding of coordinates does to the weight
  bool is_signed = false;  // whatever its error: those of its factors leave no sign open
};
using VisitExact = std::function<void(const ExactContribution&)>;

// What the parts of an operator are called.
struct ScatterNames {
  const char* source = "";               // of a place of the source: "source row"
  std::vector<std::string> corners{""};  // of a sample
  std::vector<std::string> weights;      // of the factors
  const char* divisor = nullptr;         // of `count`, if kernels divide by it: the last factor is one over it then
};

class ScatterTables;

class ScatterCall : public DefinedCall, public Additions, public Stages, public Kernels {
 public:
  // --- What an operator says of itself.
  virtual const Tensor& source() const = 0;          // what is added, the first of inputs()
  const PlaceLayout& from() const { return from_; }  // of source()
  const PlaceLayout& to() const { return to_; }      // of the gradient
  const ScatterNames& names() const { return names_; }
  // A sample is what the intermediate tensors have numbers of; several may share a source.
  virtual int64_t source_of(int64_t sample) const { return sample; }
  // That of our own replays is the first.
  std::vector<FactorArithmetic> factor_arithmetics() const override { return {{"as written", arithmetic(), 0}}; }
  // Returns the arithmetic of mode float64.
  virtual FactorArithmetic exact_arithmetic() const {
    return {"in float64", MSDA_FLOAT64, factor_arithmetics().front().variant};
  }
  virtual void send(int64_t sample, const FactorArithmetic& by, const VisitContribution& visit) const = 0;
  virtual void send_exactly(int64_t source, const Precision& coordinates, int way, const VisitExact& visit) const = 0;
  // Returns by which way kernels may find out which targets there are: the exact way is 0.
  virtual int way_of(const Place&) const { return 0; }
  // Returns the precision that coordinates are computed in, where the rest has another.
  virtual Precision coordinate_precision(const Precision& rest) const { return rest; }
  virtual std::string target_text(int64_t target) const = 0;  // "row 3"
  virtual std::string sample_text(int64_t sample) const = 0;  // "source row 3"

  Gradient gradient() const { return gradients().front(); }
  ScatterTables& tables() const { return *tables_; }

  // --- What follows from it.
  bool has_narrow_kernels() const override { return true; }  // PyTorch's add 16-bit numbers up in their type

  double number(const Term::Input& input) const override { return source().at(input.flat); }
  void terms(const ElementId& id, const Place& place, const Precisions& precisions, Cache& cache,
             const VisitTerm& visit) const override;
  void computed_terms(const ElementId& id, Cache& cache, const VisitTerm& visit) const override;
  std::string text_of_term(Gradient, int64_t number) const override;
  std::vector<Mistake> last_mistakes(const ElementId& id, Cache& cache) const override;
  // Returns the loss of the forward pass, which gathers: sum(source * gathered(x)).
  Loss loss_at(const ElementId& id, double x) const override;
  bool visit_inputs(const ElementId& id, const Place& place, const Precision& precision, Cache& cache,
                    const VisitInput& visit) const override;

  int64_t samples_of_family() const override { return sample_count(); }
  int64_t weights_of(Gradient, int64_t flat) const override { return to().at(flat).place; }
  std::shared_ptr<const Additions> additions(Gradient gradient) const override;
  std::vector<std::string> factor_names() const override;
  bool last_divides() const override { return names_.divisor != nullptr; }
  int64_t family_count() const override { return 1; }
  std::vector<SharedAddend> shared_addends(int64_t family, const FactorArithmetic& by) const override;
  std::vector<int64_t> elements_of(int64_t target) const override;
  void channel_factors(int64_t sample, std::span<double> factors) const override;
  int64_t launch_index(int64_t sample) const override { return source_of(sample); }
  const char* launch_index_name() const override { return names_.source; }
  std::string addend_name(const SharedAddend& addend) const override {
    return name_of_addend(addend.sample, addend.corner);
  }
  void run_kernels(const msda_options& options, std::span<const Tensor> results) const override;

  std::vector<Intermediate> intermediates() const override;
  int64_t sample_count() const override { return from().places(); }
  std::vector<double> numbers_of(const Intermediate& tensor, int64_t first, int64_t count, msda_mode mode,
                                 int threads) const override;
  std::vector<NamedAddend> named_addends(const ElementId& id, Cache& cache) const override;
  double scattered_value(const ElementId& id, msda_mode mode, Cache& cache) const override;

  bool names_fewest_changes() const override { return true; }
  Steps inner_steps(Gradient) const override {
    return names_.weights.empty() ? Steps{0} : kInterpolationWeights | kAddends;
  }
  const char* name_of(Step step) const override;

 protected:
  // Sets what follows from the sizes.
  void set_layouts(const PlaceLayout& from, const PlaceLayout& to, ScatterNames names);

  PlaceLayout from_, to_;
  ScatterNames names_;

 private:
  std::string name_of_addend(int64_t sample, int32_t corner) const;

  std::shared_ptr<ScatterTables> tables_;  // of these sizes and this index
};

}  // namespace msda::analysis
