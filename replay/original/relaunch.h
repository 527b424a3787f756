// The plan to repeat a recorded launch: its machine code, configuration, parameters, and where its tensors lay. Checks
// everything from the capture; nothing here calls CUDA.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "recorder/adapters/adapter.h"
#include "recorder/capture/isolated_reader.h"
#include "replay/original/unwritten_bytes.h"

namespace msda::replay {

// Why a launch cannot be repeated: one line.
struct CannotRelaunch : std::runtime_error {
  using std::runtime_error::runtime_error;
};
template <class... Arguments>
[[noreturn]] void refuse_relaunch(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  throw CannotRelaunch(fmt::format(text, std::forward<Arguments>(arguments)...));
}

// A tensor in the memory of the recorded process. It may share an allocation with others, or overlap another.
struct Buffer {
  std::string name;
  bool is_output = false;
  const capture::TensorInfo* before = nullptr;    // what it held: the input, or the output before
  const capture::TensorInfo* recorded = nullptr;  // for an output, as the kernel left it; null if unknown
  uint64_t address = 0, bytes = 0;                // from the first element to the last, both included
  std::vector<int64_t> strides;                   // in elements; empty: row-major
  std::vector<UnwrittenBytes> unwritten;          // bytes of `before` that nobody had written
};

// Memory that is allocated in one piece, because its buffers touch each other. Addresses are those of the recorded
// process.
struct Region {
  uint64_t begin, end;
};

// Memory that no adapter describes: scratch memory of the kernel, or an input that the capture does not have.
struct Scratch {
  size_t parameter;  // that points to it
  uint64_t address, bytes;
};

// What to do with a pointer to memory that no adapter describes.
enum class UnknownMemory { kRefuse, kScratch };

struct Relaunch {
  std::string kernel;
  capture::KernelImage code;
  adapters::LaunchShape shape;
  std::array<uint32_t, 3> cluster{};  // zeros: none
  bool cooperative = false;
  capture::Parameters parameters;
  std::vector<uint64_t> pointers;  // offsets in parameters.bytes of the pointers that are not null
  std::vector<Buffer> buffers;     // each tensor once
  std::vector<Scratch> scratch;    // ascending by address, none within a buffer or another
  std::vector<Region> regions;     // ascending; every buffer, and so every pointer, lies in one
  std::string changed;             // how it differs from the recorded launch, as text
};

// Returns whether the invocation is a launch, not a call on the CPU.
bool is_launch(const capture::Invocation& invocation);

// Returns the recorded launch. Keeps references to both arguments. Throws CannotRelaunch.
Relaunch plan_relaunch(const capture::Invocation& invocation, const std::vector<capture::KernelImage>& kernels,
                       UnknownMemory unknown);

// Changes the block size, and the grid accordingly. Throws CannotRelaunch if the kernel would compute something else.
void change_block(Relaunch& plan, const capture::Invocation& invocation, const capture::IsolatedReader& reader,
                  uint32_t threads);

// Replaces the code by another variant of the kernel in this capture, of those among which an autotuner chose, with
// that variant's launch configuration. The digest may be a prefix. Throws CannotRelaunch.
void change_code(Relaunch& plan, const capture::Invocation& invocation, const capture::IsolatedReader& reader,
                 const std::vector<capture::KernelImage>& kernels, std::string_view digest);

}  // namespace msda::replay
