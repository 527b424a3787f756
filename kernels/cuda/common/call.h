// Turns a checked call into what the CUDA kernels take, and what they write into the results.
#pragma once

#include <cuda_runtime_api.h>

#include <initializer_list>

#include "kernels/checked/call.h"
#include "kernels/cuda/common/result.h"
#include "kernels/cuda/common/workspace.h"
#include "kernels/guarded.h"

namespace msda::kernels::cuda {

// Runs the body of a function of the C ABI, and enqueues on the stream what body(work) adds.
template <class Body>
msda_status enqueued(void* stream, Body&& body) noexcept {
  return guarded([&] {
    Work work(static_cast<cudaStream_t>(stream));
    body(work);
    work.enqueue();
  });
}

// Throws Unavailable if there is no GPU.
void need_device();

// Returns the type as which all inputs are read: their common type if they have one, otherwise the narrowest that holds
// all of them.
msda_dtype common_dtype(std::initializer_list<const msda_tensor*> inputs, bool float64_inputs, bool float64);

// An input as the kernels take it: the tensor itself, or a contiguous, possibly widened copy in the workspace.
class Input {
 public:
  Input(const msda_tensor& tensor, msda_dtype dtype);
  void want(Workspace& workspace);
  void make(Work& work);
  template <class Stored>
  const Stored* data() const {
    return static_cast<const Stored*>(is_ready_ ? tensor_.data : memory_);
  }

 private:
  msda_tensor tensor_;
  msda_dtype dtype_;
  bool is_ready_;
  int64_t count_ = 1;
  void* memory_ = nullptr;  // of dtype_
};

// A result as the kernels write it: in place, or into the workspace, from where it is copied into a strided tensor.
class Output {
 public:
  // A null pointer means not wanted. `float64`: the arithmetic's type is double. `may_be_in_place`: the kernels can
  // write the tensor's own type.
  Output(const msda_tensor* tensor, bool float64, bool may_be_in_place = true);
  void want(Workspace& workspace);
  Result result() const;
  void store(Work& work) const;

 private:
  msda_tensor tensor_{};
  bool float64_, wanted_ = false, in_place_ = false;
  int64_t count_ = 1;
  void* memory_ = nullptr;  // of the arithmetic's type
};

// Makes the inputs as the kernels take them, calls run(result) with where the kernels write, and stores what is there.
template <class Run>
void with_memory(std::initializer_list<Input*> inputs, Output result, Work& work, Run&& run) {
  Workspace workspace(work);
  for (Input* input : inputs) input->want(workspace);
  result.want(workspace);
  workspace.take();
  for (Input* input : inputs) input->make(work);
  run(result.result());
  result.store(work);
}

}  // namespace msda::kernels::cuda
