// What a recorded kernel's parameters mean: from a launch as the driver sees it to tensors with shapes, and the
// conventions that the kernel follows. Pure functions of the launch: nothing here calls CUDA.
//
// An adapter matches a kernel by its name and by the sizes of its parameters, and refuses, with a reason, every launch
// that it cannot read for certain: a tensor with the wrong shape would be worse than none.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kernels/msda.h"
#include "kernels/names.h"
#include "recorder/tensors/description.h"
#include "recorder/tensors/facts.h"

namespace msda::adapters {

struct Parameter {
  uint64_t offset, size;  // in Launch::bytes
};

struct Launch {
  std::string kernel;  // the symbol's name, mangled as in the image
  std::vector<Parameter> parameters;
  std::vector<std::byte> bytes;  // the parameters as the kernel receives them
  std::array<uint32_t, 3> grid{}, block{};
  // The type of all floating-point tensors, as the recorder derives it from the machine code. Ignored if the kernel's
  // mangled name has the type.
  std::optional<msda_dtype> float_type;
};

// Its name is that in the capture. No stride is negative.
struct DeviceTensor : tensors::Description {
  uint64_t address = 0;
  bool written_over = false;  // for an output: the kernel overwrites every element

  // Returns the bytes from the first element to the last, both included, which are copied. The adapter has checked that
  // the number fits into 63 bits.
  int64_t bytes() const;
};

// Where a pointer lies in Launch::bytes, and the tensor that it points to: "inputs/value"; empty if the adapter does
// not know.
struct Pointer {
  uint64_t offset;
  std::string tensor;
};

struct Call {
  // Absent for a kernel that is not the operator's backward; its tensors keep their own names.
  std::optional<msda_dialect> dialect = {};
  // Absent if the kernel's parameters do not show it, because it was compiled in.
  std::optional<msda_padding> padding = {};
  std::optional<bool> align_corners = {};
  std::vector<DeviceTensor> inputs = {}, outputs = {};
  // All pointers among the parameters; a launch on other buffers replaces them. A tensor that is read and written has
  // two entries.
  std::vector<Pointer> pointers = {};
  // decode() has read data that change from launch to launch, as indices do, and not only sizes: a recorder waits for
  // them before each launch.
  bool reads_data = false;
  // What decode() has read decides which tensors there are and how large they are. Otherwise it was only checked.
  bool data_decide_sizes = true;
  // Further facts, which become attributes in the capture.
  tensors::Facts facts = {};
};

// Why a launch is not recorded, or cannot have another block size: one line.
struct Refusal {
  std::string reason;
  bool of_this_launch = false;  // because of what memory holds: the next launch with these parameters may be recorded
};
using Decoded = std::variant<Call, Refusal>;

// A launch's configuration.
struct LaunchShape {
  std::array<uint32_t, 3> grid{}, block{};
  uint32_t shared_bytes = 0;
};

// Copies device memory to the host; returns false if it cannot. Adapters use it only for small tables (spatial_shapes)
// and a few thousand indices. If what was read of an input has changed, a launch with equal parameters is decoded anew.
using ReadDevice = std::function<bool(uint64_t address, void* to, size_t bytes)>;

class Adapter {
 public:
  virtual ~Adapter() = default;
  virtual std::string_view name() const = 0;
  // Returns whether this adapter decodes kernels of this name. Called for every new kernel: must be quick.
  virtual bool matches(std::string_view kernel) const = 0;
  virtual Decoded decode(const Launch& launch, const ReadDevice& read) const = 0;
  // Returns whether the tensors' sizes decide the grid, whatever the code of the kernel.
  virtual bool grid_follows_from_sizes() const { return false; }
  // Returns the configuration with which the kernel computes the same in blocks of `threads` threads. decode() must
  // have accepted the launch.
  virtual std::variant<LaunchShape, Refusal> with_block(const Launch& launch, uint32_t threads) const;
};

using Adapters = std::vector<std::unique_ptr<const Adapter>>;

// Returns the adapters for the kernels that the project knows: those of all files in the folders of operators. Never
// destroyed: a program may launch while it exits.
const Adapters& built_in();

}  // namespace msda::adapters
