// Launches a kernel that does next to nothing many times, and prints the microseconds of a launch.
#include <chrono>

#include "program.cuh"

__global__ void tiny_kernel(int* sum, int addend) {
  if (threadIdx.x == 0) *sum += addend;
}

namespace {

void run(const gpu::Options& options) {
  using Clock = std::chrono::steady_clock;
  const int launches = options.number("launches", 20000), repetitions = options.number("repetitions", 7);
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  int* sum = gpu::upload(std::vector<int>{0});
  std::vector<double> times;
  for (int r = 0; r <= repetitions; ++r) {
    const auto begin = Clock::now();
    for (int i = 0; i < launches; ++i) tiny_kernel<<<1, 32, 0, stream>>>(sum, 1);
    CHECK(cudaGetLastError());
    CHECK(cudaStreamSynchronize(stream));
    // The first one loads code.
    if (r > 0) times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / launches);
  }
  std::printf("sum %d\nlaunch_us %.4f\n", gpu::download(sum, 1)[0], gpu::median(times));
}

}  // namespace

int main(int count, char** arguments) {
  try {
    run(gpu::Options(count, arguments, {}, {"launches", "repetitions"}));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tiny: %s\n", error.what());
    return 1;
  }
}
