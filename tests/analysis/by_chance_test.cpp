// What values of 16 bits do not show: wrong ones that fit another mistake by chance.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/material.h"

namespace msda::tests {
namespace {

using analysis::Cause;
using analysis::Finding;
using analysis::MsdaGradient;
using analysis::Report;

constexpr msda_dtype kNarrow[] = {MSDA_FLOAT16, MSDA_BFLOAT16};

class OfGradValue {
 public:
  explicit OfGradValue(msda_dtype dtype, double scale = 1)
      : problem_(make_problem({1, 2, 16, 80, 2, {{6, 6}}}, {MSDA_MSDA_TRITON, MSDA_PADDING_ZEROS, false}, dtype, 8)),
        dtype_(dtype) {
    for (int64_t i = 0; i < problem_.grad_output.view.elements(); ++i) {
      problem_.grad_output.set(i, problem_.grad_output.view.at(i) * scale);
    }
    material_.emplace(problem_);
    material_->tolerance = analysis::Tolerance{0, dtype == MSDA_FLOAT16 ? 5e-3 : 4e-2};
  }

  int64_t elements() const { return material_->recorded.of(MsdaGradient::kValue).view.elements(); }
  double at(int64_t flat) const { return material_->recorded.of(MsdaGradient::kValue).view.at(flat); }
  void set(int64_t flat, double value) { material_->recorded.of(MsdaGradient::kValue).set(flat, value); }

  // The output buffer: the gradient of another call, as it were.
  void fill_buffer() {
    std::vector<double> values;
    for (int64_t i = elements() - 1; i >= 0; --i) values.push_back(at(i));
    material_->before[0] = OwnedTensor(values, dtype_, material_->recorded.of(MsdaGradient::kValue).view.shape);
  }
  double before(int64_t flat) const { return material_->before[0]->view.at(flat); }

  Report analyze() const { return material_->analyze(); }
  // Elements of the gradient with this cause.
  int64_t count(Cause cause) const {
    int64_t count = 0;
    for (const auto& set : analyze().judged) {
      if (!set.advisory && set.gradient == MsdaGradient::kValue && set.cause == cause) count += set.elements;
    }
    return count;
  }

 private:
  Problem problem_;
  msda_dtype dtype_;
  std::optional<TestMaterial> material_;
};

TEST(ByChance, WrongValuesThatFitTheBufferAreNotLeftThere) {
  for (const msda_dtype dtype : kNarrow) {
    for (const double factor : {1.3, -1.0, 0.5}) {
      OfGradValue gradient(dtype);
      gradient.fill_buffer();
      for (int64_t i = 0; i < gradient.elements(); ++i) gradient.set(i, gradient.at(i) * factor);
      EXPECT_EQ(gradient.count(Cause::kUninitializedOutput), 0) << msda_dtype_name(dtype) << " " << factor;
      EXPECT_GT(gradient.count(Cause::kImplementationError), 100) << msda_dtype_name(dtype) << " " << factor;
    }
  }
}

// One number of so few bits is another's equal too often to decide.
TEST(ByChance, OneValueDoesNotTellWhatTheBufferHeld) {
  OfGradValue gradient(MSDA_BFLOAT16);
  gradient.fill_buffer();
  int64_t flat = 0;
  while (std::abs(gradient.before(flat)) < 4 * std::abs(gradient.at(flat))) ++flat;
  gradient.set(flat, gradient.before(flat));
  EXPECT_EQ(gradient.count(Cause::kUninitializedOutput), 0);
  EXPECT_EQ(gradient.count(Cause::kImplementationError), 1);
}

TEST(ByChance, ManyValuesTellWhatTheBufferHeld) {
  for (const msda_dtype dtype : kNarrow) {
    OfGradValue unwritten(dtype), added(dtype);
    unwritten.fill_buffer();
    added.fill_buffer();
    for (int64_t i = 0; i < added.elements(); ++i) {
      if (i < 40) unwritten.set(i, unwritten.before(i));
      added.set(i, added.at(i) + added.before(i));
    }
    EXPECT_GT(unwritten.count(Cause::kUninitializedOutput), 30) << msda_dtype_name(dtype);
    EXPECT_EQ(unwritten.count(Cause::kImplementationError), 0) << msda_dtype_name(dtype);
    EXPECT_GT(added.count(Cause::kUninitializedOutput), 100) << msda_dtype_name(dtype);
    EXPECT_EQ(added.count(Cause::kImplementationError), 0) << msda_dtype_name(dtype);
  }
}

// Findings that say that the element had never been computed.
int64_t never_computed(const Report& report) {
  int64_t count = 0;
  for (const Finding& f : report.findings) {
    const auto texts = f.evidence.find("as_if");
    count += texts != f.evidence.end() && texts->dump().find("never been computed") != std::string::npos;
  }
  return count;
}

TEST(ByChance, UnderflowLeaves0OfWhatWasComputed) {
  for (const double scale : {1.0, 1e-5}) {
    OfGradValue gradient(MSDA_FLOAT16, scale);
    for (int64_t i = 0; i < gradient.elements(); ++i) gradient.set(i, 0);
    const Report report = gradient.analyze();
    ASSERT_GT(gradient.count(Cause::kImplementationError), 100);
    EXPECT_EQ(never_computed(report) > 0, scale == 1) << scale;
  }
}

}  // namespace
}  // namespace msda::tests
