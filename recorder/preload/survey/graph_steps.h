// Reads what a CUDA graph does from its nodes, and copies it: the program may destroy the graph once it is
// instantiated.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "recorder/preload/driver/driver_api.h"
#include "recorder/preload/launch/launch.h"
#include "recorder/preload/launch/launch_facts.h"
#include "recorder/preload/survey/reach.h"

namespace msda::record {

struct KernelStep {
  cuda::Function function = nullptr;
  cuda::Context context = nullptr;  // null: the driver does not report it
  std::array<uint32_t, 3> grid{}, block{};
  unsigned shared_bytes = 0;
  std::vector<cuda::LaunchAttribute> attributes;  // that change what it computes
  std::vector<std::byte> bytes;                   // its parameters; empty if the driver does not report them
  std::vector<size_t> offsets;                    // of each in `bytes`
};
using CopyStep = cuda::CopyOfBox;
using SetStep = cuda::SetNodeParameters;

struct GraphStep {
  cuda::GraphNode node = nullptr;
  bool is_enabled = true;
  std::variant<KernelStep, CopyStep, SetStep> what;
};

struct GraphSteps {
  std::vector<GraphStep> all;  // in an order that the graph allows
  // Whether these are all steps: host functions, allocations, events, semaphores, branches and copies of arrays are
  // left out.
  bool is_whole = true;
};

// Returns nothing if the driver does not report its nodes.
std::optional<GraphSteps> read_steps(cuda::Graph graph);

// Returns a launch that outlives its parameters. Its `bytes` are empty if the driver does not report them.
KernelStep step_of(const Launched& launched, const Layout& layout);

// Returns the step that these parameters make of a kernel node. Nothing for a function that the driver does not know.
std::optional<KernelStep> kernel_step(const cuda::KernelNodeParameters& parameters);

// Returns whether it copies between memory that is not in arrays.
bool is_plain(const CopyStep& copy);
// Returns the range from the first byte that it writes or reads to the last.
DeviceRange range_of(const cuda::CopyOfBox::Side& side, const CopyStep& copy);
DeviceRange range_of(const SetStep& set);

// Perform the step on the stream. Return false if the driver refuses.
bool perform(const CopyStep& copy, cuda::Stream stream);
bool perform(const SetStep& set, cuda::Stream stream);

// Makes a launch of a step, on a stream; refers to the step.
class LaunchOfStep {
 public:
  LaunchOfStep(const KernelStep& step, cuda::Stream stream);
  const Launched& launched() const { return launched_; }

 private:
  std::vector<void*> pointers_;
  Launched launched_;
};

}  // namespace msda::record
