// What a recorded kernel's parameters mean: from a launch as the driver sees it to tensors with shapes, and the
// conventions that the kernel follows. Pure functions of the launch: nothing here calls CUDA.
//
// An adapter matches a kernel by its name and by the sizes of its parameters, and refuses, with a reason, whatever it
// does not know for certain: a tensor that is read with the wrong shape would be worse than none.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kernels/msda.h"
#include "kernels/names.h"

namespace msda::adapters {

struct Parameter {
  uint64_t offset, size;  // in Launch::bytes
};

struct Launch {
  std::string kernel;  // the symbol's name, mangled as in the image
  std::vector<Parameter> parameters;
  std::vector<std::byte> bytes;  // the parameters as the kernel receives them
  std::array<uint32_t, 3> grid{}, block{};
  // Of all the floating-point tensors, where the image tells: Triton's does, in its name for the kernel's signature.
  // Of no account where the kernel's own name tells.
  std::optional<msda_dtype> float_type;
};

// What the elements of a tensor are, by the capture's word for it, and their size: a type of the operator's, or uint8,
// which only other kernels have.
struct ElementType {
  constexpr ElementType(msda_dtype type) : name(kernels::name_of(type)), bytes(kernels::bytes_of(type)) {}  // NOLINT
  static constexpr ElementType uint8() { return {"uint8", 1}; }
  bool operator==(const ElementType& other) const { return std::string_view(name) == other.name; }

  const char* name;
  int64_t bytes;

 private:
  constexpr ElementType(const char* word, int64_t size) : name(word), bytes(size) {}
};

struct DeviceTensor {
  std::string name;  // as in the capture: "value", "grad_value", ...
  ElementType dtype = MSDA_FLOAT32;
  std::vector<int64_t> shape;
  uint64_t address = 0;
  std::vector<int64_t> strides = {};  // in elements, none negative; empty: row-major, contiguous
  bool written_over = false;          // of an output: the kernel writes every element of it, whatever it held

  // From the first element to the last, both included: what is copied. The adapter has made sure that it fits into 63
  // bits.
  int64_t bytes() const;
};

// Where in Launch::bytes a pointer lies, and what to: "inputs/value"; empty where the adapter does not know.
struct Pointer {
  uint64_t offset;
  std::string tensor;
};

struct Call {
  // Absent for a kernel that is not the operator's backward: its tensors are recorded under its own names for them.
  std::optional<msda_dialect> dialect;
  // Absent where the kernel's parameters do not tell, as with constants that were compiled in.
  std::optional<msda_padding> padding;
  std::optional<bool> align_corners;
  std::vector<DeviceTensor> inputs, outputs;
  // All pointers among the parameters, which a launch on other buffers replaces. Of a tensor that is read and written
  // there are two entries.
  std::vector<Pointer> pointers = {};
  // Facts beyond those, which go into the capture as attributes.
  std::map<std::string, std::string> texts = {};
  std::map<std::string, int64_t> integers = {};
};

// Why a launch is not recorded, or cannot be another: one line.
struct Refusal {
  std::string reason;
};
using Decoded = std::variant<Call, Refusal>;

// What a launch is besides its parameters.
struct LaunchShape {
  std::array<uint32_t, 3> grid{}, block{};
  uint32_t shared_bytes = 0;
};

// Copies device memory to the host; false if it cannot. Adapters use it for small tables (spatial_shapes) alone.
using ReadDevice = std::function<bool(uint64_t address, void* to, size_t bytes)>;

class Adapter {
 public:
  virtual ~Adapter() = default;
  virtual std::string_view name() const = 0;
  // Whether a kernel of this name is this adapter's to decode. Called on every new kernel: must be quick.
  virtual bool matches(std::string_view kernel) const = 0;
  virtual Decoded decode(const Launch& launch, const ReadDevice& read) const = 0;
  // The shape with which the kernel computes the same in blocks of so many threads. Of a launch that decode() took.
  virtual std::variant<LaunchShape, Refusal> with_block(const Launch& launch, uint32_t threads) const;
};

// The adapters for the kernels that the project knows, in the order in which they are asked.
std::span<const Adapter* const> built_in();

}  // namespace msda::adapters
