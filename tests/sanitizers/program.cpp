// A program that somebody builds with a sanitizer: two threads call the operator's backward pass, once each. With the
// argument "fault" it then does what the sanitizer reports.
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <vector>

#include "kernels/msda.h"

namespace {

int shared = 0;

float backward(float scale) {
  std::vector<float> value(4 * 2, scale), locations(2 * 2, 0.4F), weights(2, 0.5F), grad_output(2 * 2, 1.0F);
  int64_t levels[1][2] = {{2, 2}};
  const auto tensor = [](void* data, msda_dtype type, std::vector<int64_t> shape) {
    return msda_contiguous(data, type, static_cast<int32_t>(shape.size()), shape.data());
  };
  msda_call call{};
  call.value = tensor(value.data(), MSDA_FLOAT32, {1, 4, 1, 2});
  call.spatial_shapes = tensor(levels, MSDA_INT64, {1, 2});
  call.level_start_index = tensor(nullptr, MSDA_INT64, {});
  call.sampling_locations = tensor(locations.data(), MSDA_FLOAT32, {1, 2, 1, 1, 1, 2});
  call.attention_weights = tensor(weights.data(), MSDA_FLOAT32, {1, 2, 1, 1, 1});
  const msda_tensor output = tensor(grad_output.data(), MSDA_FLOAT32, {1, 2, 1, 2});
  std::vector<float> grad_value(value.size()), grad_locations(locations.size()), grad_weights(weights.size());
  const msda_tensor into_value = tensor(grad_value.data(), MSDA_FLOAT32, {1, 4, 1, 2}),
                    into_locations = tensor(grad_locations.data(), MSDA_FLOAT32, {1, 2, 1, 1, 1, 2}),
                    into_weights = tensor(grad_weights.data(), MSDA_FLOAT32, {1, 2, 1, 1, 1});
  if (msda_backward(&call, &output, nullptr, &into_value, &into_locations, &into_weights) != MSDA_OK) std::abort();
  float sum = 0;
  for (const float x : grad_weights) sum += x;
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  float sums[2];
  std::thread a([&] { sums[0] = backward(1); }), b([&] { sums[1] = backward(2); });
  a.join();
  b.join();
  std::printf("%g %g\n", static_cast<double>(sums[0]), static_cast<double>(sums[1]));
  if (argc > 1 && std::string_view(argv[1]) == "fault") {
    std::thread c([] { ++shared; }), d([] { ++shared; });  // a race
    c.join();
    d.join();
    std::vector<int> numbers(4);
    volatile int* beyond = numbers.data() + 2 + argc;
    *beyond = argc;  // beyond the end
    volatile int large = 0x7fffffff;
    large = large + argc;  // overflow
  }
  return 0;
}
