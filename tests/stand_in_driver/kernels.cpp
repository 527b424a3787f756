#include "tests/stand_in_driver/kernels.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <random>
#include <utility>

#include "tests/stand_in_driver/driver.h"
#include "tests/stand_in_driver/evidence_kernel.h"
#include "tests/stand_in_driver/poison_kernels.h"
#include "tests/stand_in_driver/scatter_kernels.h"
#include "tests/stand_in_driver/survey_kernels.h"
#include "tests/stand_in_driver/trail_kernels.h"
#include "tests/stand_in_driver/unwritten_kernels.h"
#include "tests/stand_in_driver/waiting_kernels.h"

namespace msda::stand_in {

namespace {

// The layout that Arguments reads: 'p' is a pointer, 'i' an int.
std::vector<Parameter> layout(std::string_view types) {
  std::vector<Parameter> parameters;
  size_t at = 0;
  for (const char type : types) {
    const size_t bytes = type == 'p' ? 8 : 4;
    at = (at + bytes - 1) / bytes * bytes;
    parameters.push_back({at, bytes});
    at += bytes;
  }
  return parameters;
}

// One backward launch of either family: what it is given, in device memory.
template <class T>
struct Launch {
  int64_t B, S, M, D, L, Q, P;
  const T *grad_output, *value, *locations, *attention;
  const int64_t *shapes, *starts;  // no starts: one level after the other
  T *grad_value, *grad_locations, *grad_attention;
};

// What one coordinate of a sample says about the lower and the upper row (or column) that it reads.
struct Axis {
  int64_t pixel[2];  // or -1: outside, reads zero
  double weight[2];
  double slope[2];  // derivative of the weight by the location
  bool skipped = false;
};

// The cell is decided in the kernel's own type T, as it is on a GPU: only so can a replay look at the same pixels.
template <class T>
Axis locate_deformable_detr(T location, int64_t size) {
  const T x = std::fma(location, static_cast<T>(size), T(-0.5));
  if (!(x > -1 && x < static_cast<T>(size))) return {{-1, -1}, {0, 0}, {0, 0}, true};
  const double low = std::floor(x), upper = x - low, side = static_cast<double>(size);
  const auto pixel = static_cast<int64_t>(low);
  return {{pixel, pixel + 1 < size ? pixel + 1 : -1}, {1 - upper, upper}, {-side, side}};
}

template <class T>
Axis locate_msda_triton(T location, int64_t size) {
  const T x = location * static_cast<T>(size) - T(0.5);
  const double low = std::floor(x), upper = x - low, side = static_cast<double>(size);
  const auto clamped = [&](double pixel) {
    return !(pixel >= 0) ? 0 : pixel > side - 1 ? size - 1 : static_cast<int64_t>(pixel);
  };
  return {{clamped(low), clamped(low + 1)}, {1 - upper, upper}, {-side, side}};
}

// Null pointers, pointers to elsewhere and levels beyond the value: a GPU would fault.
template <class T>
bool addresses_good(const Launch<T>& k) {
  const auto reachable = [](const void* pointer, int64_t count, size_t bytes) {
    return count >= 0 && allocated(reinterpret_cast<uintptr_t>(pointer), static_cast<size_t>(count) * bytes);
  };
  const int64_t samples = k.B * k.Q * k.M * k.L * k.P;
  if (!reachable(k.shapes, 2 * k.L, 8) || (k.starts && !reachable(k.starts, k.L, 8))) return false;
  int64_t start = 0;
  for (int64_t l = 0; l < k.L; ++l) {
    if (k.starts) start = k.starts[l];
    if (start < 0 || k.shapes[2 * l] < 0 || k.shapes[2 * l + 1] < 0) return false;
    start += k.shapes[2 * l] * k.shapes[2 * l + 1];
    if (start > k.S) return false;
  }
  return reachable(k.grad_output, k.B * k.Q * k.M * k.D, sizeof(T)) &&
         reachable(k.value, k.B * k.S * k.M * k.D, sizeof(T)) && reachable(k.locations, 2 * samples, sizeof(T)) &&
         reachable(k.attention, samples, sizeof(T)) && reachable(k.grad_value, k.B * k.S * k.M * k.D, sizeof(T)) &&
         reachable(k.grad_locations, 2 * samples, sizeof(T)) && reachable(k.grad_attention, samples, sizeof(T));
}

// The definition as a loop, summed in float64. Adds to grad_value, overwrites the other two. With
// MSDA_STAND_IN_UNORDERED the terms of grad_value are added one by one and in another order every time, as atomics add
// them.
template <class T>
CUresult backward(const Launch<T>& k, Axis (*locate)(T, int64_t)) {
  if (!addresses_good(k)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  std::vector<double> sums(static_cast<size_t>(k.B * k.S * k.M * k.D));
  std::vector<int64_t> rows(static_cast<size_t>(k.B * k.Q * k.M));
  std::iota(rows.begin(), rows.end(), 0);
  const bool unordered = getenv("MSDA_STAND_IN_UNORDERED") != nullptr;
  static std::mt19937 random{std::random_device{}()};
  if (unordered) std::ranges::shuffle(rows, random);
  for (const int64_t row : rows) {
    const int64_t m = row % k.M, b = row / k.M / k.Q;
    int64_t start = 0;
    for (int64_t l = 0; l < k.L; ++l) {
      const int64_t height = k.shapes[2 * l], width = k.shapes[2 * l + 1];
      if (k.starts) start = k.starts[l];
      for (int64_t p = 0; p < k.P; ++p) {
        const int64_t sample = (row * k.L + l) * k.P + p;
        const Axis x = locate(k.locations[2 * sample], width), y = locate(k.locations[2 * sample + 1], height);
        const double attention = k.attention[sample];
        double grad_x = 0, grad_y = 0, grad_attention = 0;
        for (int corner = 0; corner < 4 && !x.skipped && !y.skipped; ++corner) {
          const int i = corner % 2, j = corner / 2;
          if (x.pixel[i] < 0 || y.pixel[j] < 0) continue;
          const int64_t pixel = (b * k.S + start + y.pixel[j] * width + x.pixel[i]) * k.M + m;
          for (int64_t d = 0; d < k.D; ++d) {
            const double go = k.grad_output[row * k.D + d], v = k.value[pixel * k.D + d];
            grad_attention += go * v * x.weight[i] * y.weight[j];
            grad_x += go * attention * v * x.slope[i] * y.weight[j];
            grad_y += go * attention * v * x.weight[i] * y.slope[j];
            const double term = go * attention * x.weight[i] * y.weight[j];
            if (unordered) {
              T& sum = k.grad_value[pixel * k.D + d];
              sum = static_cast<T>(sum + static_cast<T>(term));
            } else {
              sums[static_cast<size_t>(pixel * k.D + d)] += term;
            }
          }
        }
        k.grad_locations[2 * sample] = static_cast<T>(grad_x);
        k.grad_locations[2 * sample + 1] = static_cast<T>(grad_y);
        k.grad_attention[sample] = static_cast<T>(grad_attention);
      }
      start += height * width;
    }
  }
  for (size_t i = 0; i < sums.size() && !unordered; ++i) k.grad_value[i] = static_cast<T>(k.grad_value[i] + sums[i]);
  return CUDA_SUCCESS;
}

template <class T>
CUresult col2im17(const std::byte* bytes) {
  Arguments arguments(bytes);
  Launch<T> k;
  const auto n = arguments.next<int>();
  k.grad_output = arguments.next<const T*>();
  k.value = arguments.next<const T*>();
  k.shapes = arguments.next<const int64_t*>();
  k.starts = arguments.next<const int64_t*>();
  k.locations = arguments.next<const T*>();
  k.attention = arguments.next<const T*>();
  for (int64_t* const size : {&k.B, &k.S, &k.M, &k.D, &k.L, &k.Q, &k.P}) *size = arguments.next<int>();
  k.grad_value = arguments.next<T*>();
  k.grad_locations = arguments.next<T*>();
  k.grad_attention = arguments.next<T*>();
  // The real kernel takes any n; a launch whose n is not the whole is a mistake of the test.
  if (n != k.B * k.Q * k.M * k.D || !k.starts) return CUDA_ERROR_ILLEGAL_ADDRESS;
  return backward(k, locate_deformable_detr<T>);
}

CUresult triton(const std::byte* bytes) {
  Arguments arguments(bytes);
  Launch<float> k;
  k.grad_value = arguments.next<float*>();
  k.grad_locations = arguments.next<float*>();
  k.grad_attention = arguments.next<float*>();
  k.grad_output = arguments.next<const float*>();
  k.value = arguments.next<const float*>();
  k.locations = arguments.next<const float*>();
  k.attention = arguments.next<const float*>();
  k.shapes = arguments.next<const int64_t*>();
  k.starts = nullptr;
  for (int64_t* const size : {&k.B, &k.S, &k.D, &k.Q, &k.M, &k.L, &k.P}) *size = arguments.next<int>();
  return backward(k, locate_msda_triton<float>);
}

CUresult tiny(const std::byte* bytes) {
  Arguments arguments(bytes);
  int* const sum = arguments.next<int*>();
  if (!allocated(reinterpret_cast<uintptr_t>(sum), sizeof(int))) return CUDA_ERROR_ILLEGAL_ADDRESS;
  *sum += arguments.next<int>();
  return CUDA_SUCCESS;
}

// The recorder's digest of memory, by its description: two sums over pieces of 16 bytes.
struct Range {
  CUdeviceptr address;
  uint64_t bytes_and_before;  // the upper 4 bits: how many of the first bytes count as zeros
};
constexpr size_t kMostRanges = 32, kMostDigests = 64;
using FirstBlocks = unsigned int[kMostRanges];

CUresult digest(const std::byte* bytes) {
  Range ranges[kMostRanges];
  FirstBlocks first_blocks;
  std::memcpy(ranges, bytes, sizeof ranges);
  std::memcpy(first_blocks, bytes + sizeof ranges, sizeof first_blocks);
  Arguments arguments(bytes + sizeof ranges + sizeof first_blocks);
  auto* const sums = arguments.next<uint64_t*>();
  auto* const slot = arguments.next<uint64_t*>();
  const auto sequence = arguments.next<uint64_t>();
  const auto first = arguments.next<unsigned int>(), from = arguments.next<unsigned int>(),
             end = arguments.next<unsigned int>();
  if (!allocated(reinterpret_cast<uintptr_t>(sums), (2 * kMostDigests + 1) * 8)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  for (size_t i = 0; i < kMostRanges && first_blocks[i] != ~0u; ++i) {
    const CUdeviceptr address = ranges[i].address;
    const uint64_t before = ranges[i].bytes_and_before >> 60, size = ranges[i].bytes_and_before << 4 >> 4;
    if (!allocated(address, size)) return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (size_t sum = 0; sum < 2; ++sum) {
      uint64_t total = 0;
      for (uint64_t at = 0; at < size; at += 16) {
        uint64_t piece[2] = {};
        const uint64_t skip = at == 0 ? before : 0;
        std::memcpy(reinterpret_cast<std::byte*>(piece) + skip, reinterpret_cast<const std::byte*>(address) + at + skip,
                    std::min<uint64_t>(size - at, 16) - skip);
        total += digest_term(piece[0], piece[1], at, sum);
      }
      sums[2 * (first + i) + sum] += total;
    }
  }
  if (slot == nullptr) return CUDA_SUCCESS;  // a later launch hands over
  for (size_t i = 2 * from; i < 2 * end; ++i) slot[1 + i] = std::exchange(sums[i], 0);
  __atomic_store_n(slot, sequence, __ATOMIC_RELEASE);
  return CUDA_SUCCESS;
}

// The elements of a strided tensor, one after the other, for the recorder.
constexpr size_t kMostDimensions = 8;
struct Dimension {
  uint64_t size, stride;
};

CUresult gather(const std::byte* bytes) {
  Dimension dimensions[kMostDimensions];
  std::memcpy(dimensions, bytes, sizeof dimensions);
  Arguments arguments(bytes + sizeof dimensions);
  const auto rank = arguments.next<unsigned int>(), unit = arguments.next<unsigned int>();
  const auto units = arguments.next<uint64_t>(), from = arguments.next<uint64_t>();
  auto* const to = arguments.next<std::byte*>();
  if (unit == 0 || unit > 16 || (unit & (unit - 1)) != 0) return CUDA_ERROR_INVALID_VALUE;
  for (uint64_t i = 0; i < units; ++i) {
    uint64_t at = from;
    for (uint64_t k = rank, index = i; k-- > 0; index /= dimensions[k].size) {
      at += index % dimensions[k].size * dimensions[k].stride;
    }
    if (at % unit != 0) return CUDA_ERROR_ILLEGAL_ADDRESS;
    if (!allocated(at, unit)) return CUDA_ERROR_ILLEGAL_ADDRESS;
    std::memcpy(to + i * unit, reinterpret_cast<const std::byte*>(at), unit);
  }
  return CUDA_SUCCESS;
}

// The range of each element over the runs of a replay: numbers in order, then NaN.
template <class T>
bool below(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(b)) return !std::isnan(a);
    if (a == b) return std::signbit(a) && !std::signbit(b);
  }
  return a < b;
}

template <class T>
CUresult extremes(Arguments arguments) {
  const auto* const from = arguments.next<const T*>();
  auto *const lowest = arguments.next<T*>(), *const highest = arguments.next<T*>();
  const auto count = arguments.next<uint64_t>();
  for (const void* pointer :
       {static_cast<const void*>(from), static_cast<const void*>(lowest), static_cast<const void*>(highest)}) {
    if (!allocated(reinterpret_cast<uintptr_t>(pointer), count * sizeof(T))) return CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  for (uint64_t i = 0; i < count; ++i) {
    if (below(from[i], lowest[i])) lowest[i] = from[i];
    if (below(highest[i], from[i])) highest[i] = from[i];
  }
  return CUDA_SUCCESS;
}

CUresult extremes_of_any(const std::byte* bytes) {
  Arguments arguments(bytes), rest(bytes);
  for (int i = 0; i < 4; ++i) rest.next<uint64_t>();
  const auto size = rest.next<unsigned int>();
  const bool is_float = rest.next<unsigned int>() != 0;
  if (is_float && size == 4) return extremes<float>(arguments);
  if (is_float && size == 8) return extremes<double>(arguments);
  if (!is_float && size == 1) return extremes<uint8_t>(arguments);
  if (!is_float && size == 4) return extremes<int32_t>(arguments);
  return is_float || size != 8 ? CUDA_ERROR_INVALID_VALUE : extremes<int64_t>(arguments);
}

std::vector<Parameter> digest_layout() {
  constexpr size_t kBlocks = sizeof(Range) * kMostRanges, kTables = kBlocks + sizeof(FirstBlocks);
  return {{0, kBlocks},      {kBlocks, sizeof(FirstBlocks)},
          {kTables, 8},      {kTables + 8, 8},
          {kTables + 16, 8}, {kTables + 24, 4},
          {kTables + 28, 4}, {kTables + 32, 4},
          {kTables + 36, 4}};
}

std::vector<Parameter> gather_layout() {
  constexpr size_t kTable = sizeof(Dimension) * kMostDimensions;
  return {{0, kTable}, {kTable, 4}, {kTable + 4, 4}, {kTable + 8, 8}, {kTable + 16, 8}, {kTable + 24, 8}};
}

}  // namespace

namespace {

const std::vector<KernelCode>& first_kernels() {
  static const std::vector<KernelCode> kernels = {
      {"_Z61ms_deformable_col2im_gpu_kernel_shm_blocksize_aware_reduce_v1IfLj32EEviPKT_S2_PKlS4_S2_S2_iiiiiiiPS0_S5_"
       "S5_",
       layout("ippppppiiiiiiippp"), col2im17<float>},
      {"_Z61ms_deformable_col2im_gpu_kernel_shm_blocksize_aware_reduce_v1IdLj32EEviPKT_S2_PKlS4_S2_S2_iiiiiiiPS0_S5_"
       "S5_",
       layout("ippppppiiiiiiippp"), col2im17<double>},
      {"triton_multi_scale_deformable_attention_bwd_kernel", layout("ppppppppiiiiiiipp"), triton},
      {"tiny_kernel", layout("pi"), tiny},
      {"_Z34ms_deformable_col2im_gpu_kernel_gmIfEviPKT_S2_PKlS4_S2_S2_iiiiiiiPS0_S5_S5_", layout("ippppppiiiiiiippp"),
       col2im17<float>},
      {"msda_replay_extremes", layout("ppppii"), extremes_of_any},
      {"msda_record_digest", digest_layout(), digest},
      {"msda_record_gather", gather_layout(), gather}};
  return kernels;
}

// Never destroyed: threads may still launch while the process exits.
const std::vector<KernelCode>& all_kernels() {
  static const auto* const kernels = [] {
    auto* const all = new std::vector<KernelCode>;
    for (const auto* some :
         {&first_kernels(), &other_kernels(), &poison_kernels(), &scatter_kernels(), &survey_kernels(),
          &evidence_kernels(), &trail_kernels(), &unwritten_kernels(), &waiting_kernels()}) {
      all->insert(all->end(), some->begin(), some->end());
    }
    return all;
  }();
  return *kernels;
}

}  // namespace

uint64_t digest_term(uint64_t a, uint64_t b, uint64_t at, size_t sum) {
  constexpr uint64_t kKeys[] = {0xA0761D6478BD642F, 0xE7037ED1A0B428DB, 0x8EBC6AF09C88C6E3, 0x589965CC75374CC3};
  __extension__ using Wide = unsigned __int128;
  const uint64_t key = at * 0x9E3779B97F4A7C15;
  const Wide product = static_cast<Wide>(a ^ (key + kKeys[2 * sum])) * (b ^ (key + kKeys[2 * sum + 1]));
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

const KernelCode* find_kernel_code(std::string_view name) {
  const auto found = std::ranges::find(all_kernels(), name, &KernelCode::name);
  return found != all_kernels().end() ? &*found : nullptr;
}

}  // namespace msda::stand_in
