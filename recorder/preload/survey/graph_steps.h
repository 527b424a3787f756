// What a CUDA graph does, read from its nodes and copied: the program may destroy the graph once it is instantiated.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "recorder/preload/driver/graph_api.h"
#include "recorder/preload/launch/launch.h"
#include "recorder/preload/launch/launch_facts.h"
#include "recorder/preload/survey/reach.h"

namespace msda::record {

struct KernelStep {
  cuda::Function function = nullptr;
  cuda::Context context = nullptr;  // null: the driver does not tell it
  std::array<uint32_t, 3> grid{}, block{};
  unsigned shared_bytes = 0;
  std::vector<cuda::LaunchAttribute> attributes;  // that change what it computes
  std::vector<std::byte> bytes;                   // its parameters; empty if the driver does not tell them
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
  // Whether these are all: host functions, allocations, events, semaphores, branches and copies of arrays are not.
  bool is_whole = true;
};

// Nothing if the driver does not tell its nodes.
std::optional<GraphSteps> read_steps(cuda::Graph graph);

// A launch that outlives its parameters. Its `bytes` are empty if the driver does not tell them.
KernelStep step_of(const Launched& launched, const Layout& layout);

// The step that these parameters make of a kernel node. Nothing for a function that the driver does not know.
std::optional<KernelStep> kernel_step(const cuda::KernelNodeParameters& parameters);

// Whether it is of memory that is not in arrays.
bool is_plain(const CopyStep& copy);
// The first of the bytes that it writes or reads, and how many there are to the last.
DeviceRange range_of(const cuda::CopyOfBox::Side& side, const CopyStep& copy);
DeviceRange range_of(const SetStep& set);

// Do it on the stream. False if the driver refuses.
bool perform(const CopyStep& copy, cuda::Stream stream);
bool perform(const SetStep& set, cuda::Stream stream);

// The launch that a step is, on a stream; refers to the step.
class LaunchOfStep {
 public:
  LaunchOfStep(const KernelStep& step, cuda::Stream stream);
  const Launched& launched() const { return launched_; }

 private:
  std::vector<void*> pointers_;
  Launched launched_;
};

}  // namespace msda::record
