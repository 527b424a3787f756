// From the C ABI's structures to checked sizes and contiguous tensors, or an error that names what is wrong.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/cpu/table.h"
#include "kernels/elements.h"
#include "kernels/msda.h"
#include "kernels/strided.h"
#include "kernels/walk.h"

namespace msda::kernels {

// Becomes MSDA_INVALID_ARGUMENT and msda_last_error() at the C ABI.
struct InvalidArgument : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// Sizes and conventions of a call whose tensors have been checked against one another. Every product of sizes that the
// kernels form fits in int64.
struct CheckedCall {
  int64_t B, S, M, D, L, Q, P;
  msda_dialect dialect;
  msda_padding padding;
  bool align_corners;
  std::vector<cpu::Level> levels;
  bool float64_inputs;  // at least one is float64: float32 arithmetic would round it

  std::vector<int64_t> value_shape() const { return {B, S, M, D}; }
  std::vector<int64_t> output_shape() const { return {B, Q, M, D}; }
  std::vector<int64_t> locations_shape() const { return {B, Q, M, L, P, 2}; }
  std::vector<int64_t> weights_shape() const { return {B, Q, M, L, P}; }
  std::vector<int64_t> stage_shape(msda_stage_id stage) const;
};

// Checks a call; `grad_output` may be null. Throws InvalidArgument.
CheckedCall check_call(const msda_call& call, const msda_tensor* grad_output);

std::vector<int64_t> shape_of(const msda_tensor& tensor);

// Each throws InvalidArgument unless `tensor` has: a rank, sizes that can be, and data; a shape and data; a
// floating-point type.
void check_rank_and_sizes(const char* name, const msda_tensor& tensor, int rank);
void check_exact_shape(const char* name, const msda_tensor& tensor, const std::vector<int64_t>& shape);
void check_float(const char* name, const msda_tensor& tensor);

// Throws InvalidArgument unless `tensor` has this shape, a floating-point type, and data.
void check_result(const char* name, const msda_tensor& tensor, const std::vector<int64_t>& shape);

// Throws InvalidArgument unless the mode has stages and each of the results, null or not, can hold its stage.
void check_stages(const CheckedCall& checked, const msda_options& options,
                  const msda_tensor* const results[MSDA_STAGE_COUNT]);

inline constexpr uint32_t kAllStages = (1u << MSDA_STAGE_COUNT) - 1;

// Returns which stages a mode computes in float64, for a call whose inputs may force all of them.
uint32_t float64_stages_of(const CheckedCall& checked, const msda_options& options);

template <class T>
constexpr msda_dtype dtype_of() {
  return std::is_same_v<T, double> ? MSDA_FLOAT64 : MSDA_FLOAT32;
}

// A tensor's elements as contiguous `T`, copied only if they are not that already. T is float or double; elements are
// widened, never rounded.
template <class T>
class ContiguousInput {
 public:
  explicit ContiguousInput(const msda_tensor& tensor) {
    if (tensor.dtype == dtype_of<T>() && is_contiguous(tensor)) {
      data_ = static_cast<const T*>(tensor.data);
      return;
    }
    copy_.resize(static_cast<size_t>(elements_of(sizes_of(tensor))));
    T* to = copy_.data();
    const auto copy = [&](const auto* from) {
      for_each_row(sizes_of(tensor), strides_of(tensor), [&](int64_t offset, int64_t step, int64_t n) {
        for (int64_t i = 0; i < n; ++i) *to++ = static_cast<T>(widen(from[offset + i * step]));
      });
    };
    visit_dtype(tensor.dtype, copy, tensor.data);
    data_ = copy_.data();
  }
  const T* data() const { return data_; }

 private:
  std::vector<T> copy_;
  const T* data_ = nullptr;
};

// Memory for a result in the arithmetic's type: the output tensor itself if it has that type and is contiguous,
// otherwise a buffer that copy_back() rounds into it. store() also gives every NaN the same bits, because processors
// differ in the NaN that an operation produces and the results must not; loops that do so themselves, on all threads,
// need copy_back() alone.
template <class T>
class ContiguousOutput {
 public:
  explicit ContiguousOutput(const msda_tensor& tensor) : tensor_(tensor), count_(elements_of(sizes_of(tensor))) {
    if (tensor.dtype == dtype_of<T>() && is_contiguous(tensor)) {
      data_ = static_cast<T*>(tensor.data);
      return;
    }
    buffer_.resize(static_cast<size_t>(count_));
    data_ = buffer_.data();
  }
  T* data() { return data_; }

  void store() {
    for (int64_t i = 0; i < count_; ++i) {
      if (data_[i] != data_[i]) data_[i] = std::numeric_limits<T>::quiet_NaN();
    }
    copy_back();
  }
  void copy_back() {
    if (buffer_.empty()) return;
    const T* from = buffer_.data();
    visit_dtype(tensor_.dtype, [&]<class Stored>(const Stored*) {
      auto* to = static_cast<Stored*>(tensor_.data);
      for_each_row(sizes_of(tensor_), strides_of(tensor_), [&](int64_t offset, int64_t step, int64_t n) {
        for (int64_t i = 0; i < n; ++i) to[offset + i * step] = narrow<Stored>(*from++);
      });
    });
  }

 private:
  msda_tensor tensor_;
  int64_t count_;
  std::vector<T> buffer_;
  T* data_ = nullptr;
};

}  // namespace msda::kernels
