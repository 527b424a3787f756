// Seeded random problems of the operator, and their tensors on the device.
#pragma once

#include <algorithm>
#include <random>

#include "col2im17_kernels.cuh"
#include "program.cuh"

namespace gpu {

struct Sizes {
  int B = 2, Q = 50, M = 2, P = 2, D = 8;
  std::vector<int64_t> levels{12, 10, 6, 5};  // height, width of each
  int L() const { return static_cast<int>(levels.size() / 2); }
  int S() const {
    int64_t pixels = 0;
    for (size_t i = 0; i < levels.size(); i += 2) pixels += levels[i] * levels[i + 1];
    return static_cast<int>(pixels);
  }
  size_t value() const { return size_t(B) * S() * M * D; }
  size_t rows() const { return size_t(B) * Q * M * D; }
  size_t samples() const { return size_t(B) * Q * M * L() * P; }
};

inline std::vector<int64_t> numbers(std::string text) {
  for (char& letter : text) letter = letter == 'x' ? ',' : letter;
  std::vector<int64_t> list;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    list.push_back(std::stoll(text.substr(at, end - at)));
    at = end + 1;
  }
  return list;
}

template <class T>
struct Problem {
  std::vector<T> grad_output, value, locations, attention;
  std::vector<int64_t> starts;

  Problem(const Sizes& sizes, uint64_t seed)
      : grad_output(sizes.rows()), value(sizes.value()), locations(2 * sizes.samples()), attention(sizes.samples()) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> location(-0.05, 1.05), weight(0.05, 1);
    for (T& x : grad_output) x = static_cast<T>(static_cast<float>(normal(random)));
    for (T& x : value) x = static_cast<T>(static_cast<float>(normal(random)));
    for (T& x : locations) x = static_cast<T>(static_cast<float>(location(random)));
    for (T& x : attention) x = static_cast<T>(static_cast<float>(weight(random)));
    int64_t start = 0;
    for (size_t i = 0; i < sizes.levels.size(); i += 2) {
      starts.push_back(start);
      start += sizes.levels[i] * sizes.levels[i + 1];
    }
  }
};

template <class T>
struct Gradients {
  std::vector<T> value, locations, attention;
};

// A problem on the device.
template <class T>
class Buffers {
 public:
  Buffers(const Sizes& sizes, const Problem<T>& problem) : sizes_(sizes) {
    call.n = static_cast<int>(sizes.rows());
    call.B = sizes.B, call.S = sizes.S(), call.M = sizes.M, call.D = sizes.D;
    call.L = sizes.L(), call.Q = sizes.Q, call.P = sizes.P;
    call.spatial_shapes = keep(upload(sizes.levels));
    call.level_start_index = keep(upload(problem.starts));
    call.grad_output = grad_output = keep(upload(problem.grad_output));
    call.value = value = keep(upload(problem.value));
    call.sampling_locations = locations = keep(upload(problem.locations));
    call.attention_weights = attention = keep(upload(problem.attention));
    call.grad_value = keep(upload(std::vector<T>(sizes.value(), T(0.f))));
    call.grad_sampling_locations = keep(upload(std::vector<T>(2 * sizes.samples(), T(0.f))));
    call.grad_attention_weights = keep(upload(std::vector<T>(sizes.samples(), T(0.f))));
  }
  ~Buffers() {
    for (void* pointer : kept_) cudaFree(pointer);
  }
  Buffers(const Buffers&) = delete;

  void zero(cudaStream_t stream) const {
    CHECK(cudaMemsetAsync(call.grad_value, 0, sizes_.value() * sizeof(T), stream));
    CHECK(cudaMemsetAsync(call.grad_sampling_locations, 0, 2 * sizes_.samples() * sizeof(T), stream));
    CHECK(cudaMemsetAsync(call.grad_attention_weights, 0, sizes_.samples() * sizeof(T), stream));
  }
  Gradients<T> gradients() const {
    return {download(call.grad_value, sizes_.value()), download(call.grad_sampling_locations, 2 * sizes_.samples()),
            download(call.grad_attention_weights, sizes_.samples())};
  }

  Call<T> call;
  T *grad_output, *value, *locations, *attention;  // to be written to

 private:
  template <class U>
  U* keep(U* pointer) {
    kept_.push_back(pointer);
    return pointer;
  }
  Sizes sizes_;
  std::vector<void*> kept_;
};

}  // namespace gpu
