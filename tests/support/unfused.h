// float32 arithmetic that no compiler fuses, for kernels that tests evaluate step by step.
#pragma once

namespace msda::tests {

inline float multiply(float a, float b) {
  volatile float product = a * b;
  return product;
}
inline float add(float a, float b) {
  volatile float sum = a + b;
  return sum;
}

}  // namespace msda::tests
