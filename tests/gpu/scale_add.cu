// Launches a kernel that only a user's adapter describes (docs/user-adapters.md), with an inout tensor and, where the
// device has them (sm_90), in clusters of two blocks. Prints checksums and saves what it computed.
#include <random>

#include "program.cuh"

struct Scale {
  int columns;
  float alpha;
};

__global__ void scale_add(int rows, Scale scale, const float* x, float* y, unsigned char* positive) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= rows * scale.columns) return;
  y[i] += scale.alpha * x[i];
  positive[i] = y[i] > 0;
}

namespace {

void run(const gpu::Options& options) {
  int device = 0, major = 0;
  CHECK(cudaGetDevice(&device));
  CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::mt19937 random(static_cast<unsigned>(options.number("seed", 1)));
  std::normal_distribution<float> normal;
  const int columns = 5;
  for (int i = 0; i < options.number("launches", 3); ++i) {
    const int rows = 6 + i;
    const size_t count = static_cast<size_t>(rows) * columns;
    std::vector<float> x(count), y(count);
    for (float& number : x) number = normal(random);
    for (float& number : y) number = normal(random);
    float* device_x = gpu::upload(x);
    float* device_y = gpu::upload(y);
    unsigned char* positive = gpu::upload(std::vector<unsigned char>(count, 0xFF));

    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = 2;
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    cudaLaunchConfig_t launch{};
    launch.gridDim = dim3(2);
    launch.blockDim = dim3(64);
    launch.stream = stream;
    launch.attrs = &attribute;
    launch.numAttrs = major >= 9 ? 1 : 0;
    CHECK(cudaLaunchKernelEx(&launch, scale_add, rows, Scale{columns, 0.5f}, static_cast<const float*>(device_x),
                             device_y, positive));
    CHECK(cudaStreamSynchronize(stream));

    const std::vector<int64_t> shape{rows, columns};
    const auto report = [&](const char* name, const char* type, const auto& data) {
      const size_t bytes = data.size() * sizeof data[0];
      std::printf("%d %s %016llx\n", i, name, static_cast<unsigned long long>(gpu::checksum(data.data(), bytes)));
      if (options.has("save")) {
        gpu::save_npy(options.text("save") + "/" + std::to_string(i) + "." + name + ".npy", type, shape, data.data(),
                      bytes);
      }
    };
    report("x", "<f4", x);
    report("y_before", "<f4", y);
    report("y", "<f4", gpu::download(device_y, count));
    report("positive", "|u1", gpu::download(positive, count));
  }
  std::printf("clusters %d\n", major >= 9 ? 2 : 0);
}

}  // namespace

int main(int count, char** arguments) {
  try {
    run(gpu::Options(count, arguments, {}, {"launches", "seed", "save"}));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "scale_add: %s\n", error.what());
    return 1;
  }
}
