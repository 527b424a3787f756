// What this process records: its spool, its writer process, and the calls on their way into them. The hooks, for calls
// on the CPU and for launches, hand over what they saw; nothing here throws, and after the first trouble nothing here
// does anything any more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "recorder/preload/driver/images.h"

namespace msda::record {

// A tensor in host memory.
struct HostTensor {
  std::string name, type;  // "value", "float32"
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;     // from its first element to its last
  std::vector<int64_t> strides = {};    // in elements; empty: row-major
  std::optional<uint64_t> offset = {};  // of the bytes in the memory shared with the writer, if that is where they are
  bool zeros = false;                   // all of them; then there are no bytes
};

// What is known of a call before it runs.
struct CallFacts {
  std::map<std::string, std::string> texts;  // kernel, dialect, padding_mode
  std::map<std::string, int64_t> integers;   // align_corners, and those of a launch
  std::vector<int64_t> grid, block;          // of a launch
};

// With the time, the process, the calling thread and its label.
CallFacts stamped(CallFacts facts);

// Nothing more is recorded.
bool is_over() noexcept;
// Whether a kernel of this name is asked for, and recording is not over.
bool wanted(const char* kernel) noexcept;

// A call of the C ABI that has begun; its number, and what its inputs are known by.
struct Ticket {
  uint64_t invocation = 0;
  std::string content;
  bool duplicate = false;                      // of a call with equal inputs that is recorded: it is counted only
  std::map<std::string, std::string> digests;  // of the inputs, where their bytes are not kept
};

// Empty if the call is not to be recorded. Starts the recording with the first one. `asked_for`: what tells calls with
// equal inputs apart, beside their facts; which are no others for another stream or device.
std::optional<Ticket> begin(const CallFacts& facts, const std::vector<HostTensor>& inputs,
                            const std::string& asked_for) noexcept;
void end(const Ticket& ticket, const std::vector<HostTensor>& outputs) noexcept;

// A launch's content, by the digests of its inputs.
struct Content {
  std::string key;
  uint64_t invocation = 0;
  bool known = false;        // recorded, or on its way
  bool same_before = false;  // ... and its output buffers held what they hold now
};

// Starts the recording, if that has not been done. False if nothing is recorded any more.
bool start_recording() noexcept;
// Empty if nothing is recorded any more. Starts the recording with the first one.
std::optional<Content> enter(const std::string& key, const std::string& before) noexcept;
// The launch that content was entered for did not take place.
void leave(const Content& content) noexcept;

// A launch that the device is done with. Of a known content the outputs, and what the buffers held before if that was
// another content, take the place of those that are recorded: an autotuner's trials come before the call that they are
// made for.
struct LaunchRecord {
  Content content;
  CallFacts facts;
  std::vector<int64_t> parameter_offsets, parameter_sizes;
  std::vector<std::byte> parameter_bytes;
  std::vector<HostTensor> inputs, outputs_before, outputs;
  std::map<std::string, std::string> digests;  // "inputs/value": "float32 4x5440x8x32 <digest of the device's>"
  std::optional<uint32_t> block;               // of the shared memory, in which the tensors lie
  std::string code;                            // outputs of the same code on the same content should be equal:
  std::string outputs_digest;  // of all, or of what does not depend on what the buffers held before; empty: unknown
};
void deliver(LaunchRecord&& record) noexcept;
// The last of a row of equal launches is held back until another one comes. Called when none has come for a while.
void write_held() noexcept;
// The same for one of which nothing is to be kept.
void count(const std::string& key, const std::string& code, const std::string& outputs_digest,
           int64_t launches = 1) noexcept;
// Whether the image of that digest has been delivered.
bool has_code(const std::string& digest) noexcept;
// The image of a launch's code, that its facts name by "kernel_digest"; kept once.
void deliver_code(const std::string& kernel, const Image& image, const CodeFacts& facts) noexcept;
// A launch that was neither recorded nor counted, though it should have been.
void missed(const std::string& kernel) noexcept;

// The memory shared with the writer; null if there is none.
class Ring;
Ring* ring_of_this_process() noexcept;

// The program ends in good order.
void finish() noexcept;

// Of the calling thread.
void set_label(const char* label) noexcept;

}  // namespace msda::record
