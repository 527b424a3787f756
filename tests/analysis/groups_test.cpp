// What is said of elements that belong together.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/material.h"

namespace msda::tests {
namespace {

using analysis::Cause;
using analysis::Group;
using analysis::MsdaGradient;

// A call's right gradients, to write mistakes into grad_value.
class Groups : public testing::Test {
 protected:
  Groups() { material.tolerance = analysis::Tolerance{1e-3, 1e-2}; }
  const Problem problem =
      make_problem({1, 1, 32, 100, 4, {{10, 10}}}, {MSDA_MSDA_TRITON, MSDA_PADDING_ZEROS, false}, MSDA_FLOAT32, 9);
  TestMaterial material{problem};
  OwnedTensor& tensor = material.recorded.of(MsdaGradient::kValue);
};

// Neighbours with other mistakes are few findings, since they form runs, and many elements.
TEST_F(Groups, AMistakeOfFewElementsIsNotThatOfAll) {
  for (int64_t i = 0; i < 2000; ++i) tensor.set(i, tensor.view.at(i) + 5 + static_cast<double>(i % 7));
  for (int64_t i = 2001; i < tensor.view.elements(); i += 3) tensor.set(i, 0);
  int64_t mistakes = 0;
  for (const Group& group : material.analyze().groups) {
    if (group.advisory || group.cause != Cause::kImplementationError) continue;
    EXPECT_EQ(group.as_if, "");
    mistakes += group.elements;
  }
  EXPECT_GT(mistakes, 2200);
}

TEST_F(Groups, AMistakeOfNeighboursIsTold) {
  for (int64_t i = 0; i < 1000; ++i) tensor.set(i, 0);
  const auto groups = material.analyze().groups;
  ASSERT_FALSE(groups.empty());
  EXPECT_EQ(groups[0].as_if, "it had never been computed");
}

}  // namespace
}  // namespace msda::tests
