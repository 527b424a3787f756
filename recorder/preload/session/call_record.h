// A recorded call before it is in the spool: its facts, its tensors, and the content that it was registered for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "recorder/preload/session/content_ledger.h"
#include "recorder/preload/session/target_ring.h"
#include "recorder/tensors/description.h"
#include "recorder/tensors/facts.h"

namespace msda::record {

// A tensor in host memory.
struct HostTensor : tensors::Description {
  std::span<const std::byte> bytes;     // from its first element to its last
  std::optional<uint64_t> offset = {};  // of the bytes in the memory shared with the writer, if they lie there
  bool zeros = false;                   // the tensor holds only zeros; `bytes` is empty
};

// The facts that are known before a call runs.
struct CallFacts : tensors::Facts {
  std::vector<int64_t> grid, block;  // of a launch
};

class Recording;

// The content that a call was registered for. If the call is not delivered, the destructor reports to the recording
// that it did not take place, or could not be copied.
class RegisteredContent {
 public:
  RegisteredContent() = default;
  RegisteredContent(Recording* recording, std::string its_key, const ContentLedger::Registration& entered)
      : key(std::move(its_key)),
        invocation(entered.invocation),
        known(entered.known),
        same_before(entered.same_before),
        recording_(recording) {}
  RegisteredContent(RegisteredContent&& source) noexcept { *this = std::move(source); }
  RegisteredContent& operator=(RegisteredContent&& source) noexcept;
  ~RegisteredContent();

  // Called when the call is delivered.
  void settle() noexcept { recording_ = nullptr; }

  std::string key;
  uint64_t invocation = 0;
  bool known = false;        // recorded, or being recorded
  bool same_before = false;  // recorded, and its output buffers held what they hold now

 private:
  Recording* recording_ = nullptr;
};

// A call of the C ABI that has begun.
struct HostCall {
  RegisteredContent content;
  std::map<std::string, std::string> digests;  // of the inputs, if their bytes are not recorded
  uint64_t bytes = 0;                          // in the spool so far
};

// A launch that the device has finished. If its content is known, its outputs, and what the buffers held before if that
// differs, replace the recorded ones: an autotuner's launches come before the call for which they are made.
struct LaunchRecord {
  RegisteredContent content;
  std::string before;  // identifies what the output buffers held
  CallFacts facts;
  std::vector<int64_t> parameter_offsets, parameter_sizes;
  std::vector<std::byte> parameter_bytes;
  std::vector<HostTensor> inputs, outputs_before, outputs;
  std::map<std::string, std::string> digests;  // "inputs/value": "float32 4x5440x8x32 <digest of the device's>"
  RingBlock block;                             // in the shared memory; holds the tensors
  std::string code;                            // outputs of the same code on the same content should be equal:
  std::string outputs_digest;  // of those that do not depend on what the buffers held before; empty: unknown
};

}  // namespace msda::record
