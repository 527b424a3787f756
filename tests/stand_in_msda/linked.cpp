// A program that is linked to msda_cuda_backward. It makes two calls with the default stream, and writes what it gave
// and got to the folder that it is given, NUMBER.TENSOR in raw bytes; it prints the statuses, and errno, which it set
// before.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "kernels/msda.h"
#include "tests/stand_in_driver/driver_api.h"

namespace {

using namespace msda::stand_in;

constexpr int64_t B = 1, S = 35, M = 2, D = 4, L = 2, Q = 6, P = 2;

struct OnDevice {
  OnDevice(std::string called, std::vector<float> given, const std::vector<int64_t>& shape)
      : name(std::move(called)), values(std::move(given)) {
    CUdeviceptr memory = 0;
    if (cuMemAlloc_v2(&memory, bytes()) || cuMemcpyHtoD_v2(memory, values.data(), bytes())) std::abort();
    tensor = msda_contiguous(reinterpret_cast<void*>(static_cast<uintptr_t>(memory)), MSDA_FLOAT32,
                             static_cast<int32_t>(shape.size()), shape.data());
  }
  size_t bytes() const { return values.size() * sizeof(float); }
  void save(const std::string& prefix) {
    if (cuMemcpyDtoH_v2(values.data(), reinterpret_cast<uintptr_t>(tensor.data), bytes())) std::abort();
    std::ofstream(prefix + name, std::ios::binary)
        .write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(bytes()));
  }

  std::string name;
  std::vector<float> values;
  msda_tensor tensor{};
};

}  // namespace

int main(int, char** arguments) {
  CUcontext context = nullptr;
  if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context)) return 1;
  std::mt19937 random(7);
  const auto drawn = [&](int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = static_cast<float>(random()) / 4294967296.0F;
    return values;
  };
  int64_t shapes[] = {5, 6, 1, 5}, shapes_shape[] = {L, 2};
  for (int number = 0; number < 2; ++number) {
    OnDevice tensors[] = {{"value", drawn(B * S * M * D), {B, S, M, D}},
                          {"sampling_locations", drawn(B * Q * M * L * P * 2), {B, Q, M, L, P, 2}},
                          {"attention_weights", drawn(B * Q * M * L * P), {B, Q, M, L, P}},
                          {"grad_output", drawn(B * Q * M * D), {B, Q, M, D}},
                          {"grad_value", drawn(B * S * M * D), {B, S, M, D}},
                          {"grad_sampling_locations", drawn(B * Q * M * L * P * 2), {B, Q, M, L, P, 2}},
                          {"grad_attention_weights", drawn(B * Q * M * L * P), {B, Q, M, L, P}}};
    msda_call call{};
    call.value = tensors[0].tensor;
    call.spatial_shapes = msda_contiguous(shapes, MSDA_INT64, 2, shapes_shape);
    call.level_start_index = msda_contiguous(nullptr, MSDA_INT64, 0, nullptr);
    call.sampling_locations = tensors[1].tensor;
    call.attention_weights = tensors[2].tensor;
    errno = 33;
    const msda_status status = msda_cuda_backward(&call, &tensors[3].tensor, nullptr, &tensors[4].tensor,
                                                  &tensors[5].tensor, &tensors[6].tensor, nullptr);
    std::printf("status %d errno %d\n", static_cast<int>(status), errno);
    if (cuCtxSynchronize()) return 1;
    for (OnDevice& tensor : tensors) tensor.save(std::string(arguments[1]) + "/" + std::to_string(number) + ".");
  }
  return 0;
}
