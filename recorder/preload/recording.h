// What this process records: its spool, its writer process, and the calls on their way into them. The hooks, for calls
// on the CPU and for launches, hand over what they saw; nothing here throws, and after the first trouble nothing here
// does anything any more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace msda::record {

// A tensor in host memory, row-major.
struct HostTensor {
  std::string name, type;  // "value", "float32"
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
};

// What is known of a call before it runs.
struct CallFacts {
  std::map<std::string, std::string> texts;  // kernel, dialect, padding_mode
  std::map<std::string, int64_t> integers;   // align_corners, and those of a launch
  std::vector<int64_t> grid, block;          // of a launch
};

// The parameters of a launch as the kernel receives them.
struct LaunchParameters {
  std::vector<int64_t> offsets, sizes;
  std::span<const std::byte> bytes;
};

// A call that has begun; its number, and what its inputs are known by.
struct Ticket {
  uint64_t invocation = 0;
  std::string inputs_digest, before_digest;  // of all inputs; of what the scatter sum held
  bool duplicate = false;  // of a call with equal inputs that is recorded: its outputs are counted only
};

// Whether a kernel of this name is asked for, and recording is not over.
bool wanted(const char* kernel) noexcept;

// Empty if the call is not to be recorded. Starts the recording with the first one.
std::optional<Ticket> begin(const CallFacts& facts, const std::vector<HostTensor>& inputs,
                            const std::vector<HostTensor>& outputs_before,
                            const LaunchParameters& parameters = {}) noexcept;

// With `bytes_stay` the bytes stay as they are until this thread's next end(). Then what the capture holds of equal
// calls is what the last one found and left: an autotuner's trials come before the call that they are made for.
// Without, it is the first one's.
void end(const Ticket& ticket, const std::vector<HostTensor>& outputs_before, const std::vector<HostTensor>& outputs,
         bool bytes_stay) noexcept;

// The program ends in good order.
void finish() noexcept;

// Of the calling thread.
void set_label(const char* label) noexcept;

}  // namespace msda::record
