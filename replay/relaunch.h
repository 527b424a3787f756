// A recorded launch as it is to be made again: its machine code, its shape, its parameters, and where its tensors lay.
// Everything of a capture is checked here; nothing here calls CUDA.
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "recorder/adapters/adapter.h"
#include "recorder/capture/isolated_reader.h"

namespace msda::replay {

// Why a launch cannot be made again: one line.
struct CannotRelaunch : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A tensor in the memory of the recorded process. It may lie in one allocation with others, or be another by half.
struct Buffer {
  std::string name;
  bool is_output = false;
  const capture::TensorInfo* before = nullptr;    // what it held: the input, or the output before
  const capture::TensorInfo* recorded = nullptr;  // of an output, as the kernel left it; null if that is not known
  uint64_t address = 0, bytes = 0;                // from the first element to the last, both included
  std::vector<int64_t> strides;                   // in elements; empty: row-major
};

// Memory that is allocated as one piece, as the buffers in it touch each other. Addresses of the recorded process.
struct Region {
  uint64_t begin, end;
};

struct Relaunch {
  std::string kernel;
  const capture::KernelImage* code = nullptr;
  adapters::LaunchShape shape;
  std::array<uint32_t, 3> cluster{};  // zeros: none
  bool cooperative = false;
  capture::Parameters parameters;
  std::vector<uint64_t> pointers;  // where in parameters.bytes one lies that is not null
  std::vector<Buffer> buffers;
  std::vector<Region> regions;  // ascending; every buffer, and so every pointer, lies in one
  std::string changed;          // in words: what of it is not as it was recorded
};

// Whether a launch is recorded, and not a call on the CPU.
bool is_launch(const capture::Invocation& invocation);

// The launch as it was recorded. It refers to both arguments. Throws CannotRelaunch.
Relaunch plan_relaunch(const capture::Invocation& invocation, const std::vector<capture::KernelImage>& kernels);

// The same in blocks of so many threads, and in as many of them as that takes. Throws CannotRelaunch where the kernel
// would compute something else.
void change_block(Relaunch& plan, const capture::Invocation& invocation, const capture::IsolatedReader& reader,
                  uint32_t threads);

// The same by another variant of the kernel in this capture, such as an autotuner chooses among, as that was launched.
// The digest may be cut short. Throws CannotRelaunch.
void change_code(Relaunch& plan, const capture::Invocation& invocation, const capture::IsolatedReader& reader,
                 const std::vector<capture::KernelImage>& kernels, std::string_view digest);

}  // namespace msda::replay
