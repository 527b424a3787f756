// A capture in memory: the run, and the inputs and outputs of each recorded backward call. docs/capture-format.md says
// where each field lies in the file. Empty strings and absent optionals are fields that a recording does not have.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/walk.h"
#include "recorder/capture/schema.h"
#include "recorder/capture/stage_summary.h"
#include "recorder/tensors/description.h"
#include "recorder/tensors/facts.h"

namespace msda::capture {

// Anything that keeps a capture from being read or written. The message names the file, the thing and the remedy.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A capture was completed under another name, which the message has.
struct Displaced : Error {
  using Error::Error;
};

// Strides are those of the tensor in the recorded program. Here and in the file it is row-major.
struct TensorInfo : tensors::Description {
  std::string path;    // in the file: "/invocations/000000/outputs/grad_value"
  std::string digest;  // as written beside the data; empty if the file has none

  int64_t elements() const { return kernels::elements_of(shape); }
  int64_t bytes() const { return elements() * kernels::bytes_of(type); }
};

// A tensor in memory, row-major.
struct Tensor {
  TensorInfo info;
  std::unique_ptr<std::byte[]> data;

  std::span<const std::byte> bytes() const { return {data.get(), static_cast<size_t>(info.bytes())}; }
};

// A tensor to be written; the caller owns the bytes.
struct TensorView : tensors::Description {
  std::span<const std::byte> bytes;  // row-major, whatever the strides
  bool packed = false;               // compressed in the file, if libhdf5 can do that here
};

struct Run {
  std::vector<std::string> argv;
  std::map<std::string, std::string> environment;
  std::map<std::string, std::string> libraries;  // name to version
  std::map<std::string, std::string> facts;      // host, gpu, driver, cuda, and whatever else is known of the machine
};

struct Seed {
  std::string time, source;  // ISO 8601; torch_cuda, torch_cpu, curand, libc, environment
  uint64_t value = 0;
  std::optional<int64_t> invocation;  // the first that was begun after it, or one more than there are
};

// Bytes that are never changed, and that copies share.
class SharedBytes {
 public:
  SharedBytes() = default;
  SharedBytes(std::vector<std::byte> bytes)  // NOLINT
      : bytes_(std::make_shared<const std::vector<std::byte>>(std::move(bytes))) {}

  const std::byte* data() const { return bytes_ ? bytes_->data() : nullptr; }
  size_t size() const { return bytes_ ? bytes_->size() : 0; }
  bool empty() const { return size() == 0; }
  operator std::span<const std::byte>() const { return {data(), size()}; }  // NOLINT

 private:
  std::shared_ptr<const std::vector<std::byte>> bytes_;
};

// A recorded function and the cubin that defines it. A cubin may define several, which then share digest and image.
struct KernelImage {
  std::string digest, name, architecture;
  std::map<std::string, int64_t> facts;  // registers, shared_bytes, atomics, ...
  SharedBytes image;
};

// What a survey found out about a kernel: docs/capture-format.md lists the names.
struct SurveyedKernel {
  std::map<std::string, std::string> texts;  // kernel, kernel_digest, architecture
  std::map<std::string, int64_t> integers;   // launches, surveyed, varied, ...
  std::map<std::string, double> numbers;     // evidence_difference, ...
};

// A test's |observed - expected| <= atol + rtol * |expected|.
struct RecordedTolerance {
  double atol = 0, rtol = 0;
};

// A launch's parameters as the kernel received them.
struct Parameters {
  std::vector<std::byte> bytes;
  std::vector<int64_t> offsets, sizes;  // of each parameter in `bytes`
};

// The text of a call whose outputs other conventions explain as well. It lists all that do, as "zeros, border" or
// "zeros align_corners, border align_corners".
inline constexpr char kFittingConventions[] = "fitting_conventions";

// The attributes of one recorded call.
struct CallFacts : tensors::Facts {
  std::string kernel;         // its name as the driver knows it
  std::string kernel_digest;  // of its image, in /kernels
  // Empty for a kernel that is not the operator's backward. Such a call's tensors have names and shapes of their own,
  // padding_mode and align_corners are not set. Further facts are from an adapter: is_call_attribute() is false for
  // their names.
  std::string dialect;
  std::string padding_mode;
  bool align_corners = false;
  std::optional<std::array<int64_t, 3>> grid, block;
  std::optional<int64_t> shared_bytes, stream, device, process, thread, duplicates, distinct_outputs;
  std::string time, label;
  std::optional<RecordedTolerance> tolerance;
};

// Gives each function its image, which a capture and then all functions hold once.
void share_images(std::vector<KernelImage>& kernels);

// Returns the function that a call launched. Captures of older recorders have the facts of one function of an image
// only: there the others have none.
std::optional<KernelImage> code_of(const CallFacts& facts, const std::vector<KernelImage>& kernels);

// Another result for the same inputs, results/<name>.
struct ResultFacts {
  std::string name;
  std::string role;     // "reference" for what a test compared with
  std::string dialect;  // the conventions it follows; empty: those of the call
};

// One invocation as the reader lists it.
struct Invocation {
  int64_t id = 0;
  std::string path;
  CallFacts facts;
  std::vector<TensorInfo> inputs, outputs_before, outputs;
  struct Result {
    ResultFacts facts;
    std::vector<TensorInfo> tensors;
  };
  std::vector<Result> results;
  struct Stage {
    std::string name;
    std::optional<StageFacts> facts;
    std::optional<TensorInfo> full;
  };
  std::vector<Stage> stages;  // in the order of their computation; those that the format does not know after them
  // The recorder's own digests of tensors, recorded or not (recorder/device/digest.h): "inputs/value" to "float32
  // 4x5440x8x32 0123...".
  std::map<std::string, std::string> digests;
  Parameters parameters;

  const Result* reference() const;  // the result whose role is "reference", or null
};

// Returns the tensor with this name, or null.
const TensorInfo* find(std::span<const TensorInfo> tensors, std::string_view name);

}  // namespace msda::capture
