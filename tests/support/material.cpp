#include "tests/support/material.h"

namespace msda::tests {

using analysis::Conventions;

TestMaterial::TestMaterial(const Problem& given)
    : problem(given),
      recorded(run_backward(given, {MSDA_MODE_ATOMIC, 0, 99, 0})),
      reference_conventions(given.conventions) {
  reference_conventions.dialect = MSDA_GRID_SAMPLE;
}

void TestMaterial::add_reference() { reference = run_backward(problem, reference_conventions, {}); }

analysis::Report TestMaterial::analyze() const {
  analysis::Material material;
  const auto call = std::make_shared<analysis::MsdaCall>(problem.call());
  material.call = call;
  material.recorded = recorded.side("recorded");
  if (reference) material.reference = reference->side("reference", call->with(reference_conventions));
  for (int i = 0; i < 3; ++i) {
    if (before[i]) material.before[i] = before[i]->view;
  }
  const Gradients float64 = run_backward(problem, {MSDA_MODE_FLOAT64, 0, 0, 0});
  const Gradients deterministic = run_backward(problem);
  material.float64 = float64.side("float64");
  material.replays = {deterministic.side("deterministic")};
  std::optional<Gradients> of_tests;
  if (const auto beside = call->in_dialect_of_tests()) {
    of_tests = run_backward(problem, static_cast<const analysis::MsdaCall&>(*beside).conventions, {});
    material.replays.push_back(of_tests->side(beside->arithmetic_name(), beside));
  }
  material.replays.insert(material.replays.end(), more.begin(), more.end());
  return analysis::analyze(material, {tolerance, 0});
}

}  // namespace msda::tests
