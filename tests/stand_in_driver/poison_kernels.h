// Kernels for the tests of `run --poison`, each with one defect or none; tests/gpu/poison.cu has them for a GPU. All
// have the parameters
//
//     (int count, const float* x, float* y, float* scratch)
//
// with `count` elements each; no adapter describes scratch.
#pragma once

#include <string>
#include <vector>

#include "tests/stand_in_driver/kernels.h"

namespace msda::stand_in {

// "_Z11poison_raceiPKfPfS1_" of "race".
inline std::string poison_kernel_name(const std::string& which) {
  const std::string name = "poison_" + which;
  return "_Z" + std::to_string(name.size()) + name + "iPKfPfS1_";
}

const std::vector<KernelCode>& poison_kernels();

}  // namespace msda::stand_in
