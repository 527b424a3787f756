// What a call can be made smaller by: the dimensions whose indices may be left out, and tensors that own their numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/model/gradient.h"
#include "analysis/numbers/tensor.h"

namespace msda::analysis {

class Call;

struct NamedTensor {
  const char* name;
  Tensor tensor;
};

// A call's tensors under other conventions.
struct Alternative {
  std::string text;  // what differs: "padding border in place of zeros"
  std::shared_ptr<const Call> call;
};

// Indices that stay, ascending: by cut of a call, or by dimension of a tensor.
using Kept = std::vector<std::vector<int64_t>>;

// A dimension of a call whose indices may be left out.
struct Cut {
  const char* name;    // "query"
  const char* symbol;  // "Q"
  int64_t size;
};

// What samples read, in pixels.
struct Image {
  std::string name;               // "level 1"
  std::vector<const char*> axes;  // symbols of its sides: "H", "W"
  std::vector<int64_t> sides;     // as `axes`
};

// A tensor that owns its numbers, row-major.
struct OwnedTensor {
  std::string name;
  msda_dtype dtype = MSDA_FLOAT32;
  Index shape;
  std::vector<std::byte> bytes;

  OwnedTensor() = default;
  // Zeros.
  OwnedTensor(std::string tensor_name, msda_dtype type, Index of_shape);

  Tensor view() const { return {bytes.data(), dtype, shape}; }
  bool is_floating() const { return kernels::is_float(dtype); }
};
using Inputs = std::vector<OwnedTensor>;

class Shrinkable {
 public:
  virtual ~Shrinkable() = default;

  // Every input, integers included, by its name in a capture.
  virtual std::vector<NamedTensor> all_inputs() const = 0;
  // Returns the same call of other inputs, in the order of all_inputs() and of sizes that fit each other. The tensors
  // must outlive it; data may be null where nothing is computed.
  virtual std::shared_ptr<const Call> with_tensors(std::vector<Tensor> tensors) const = 0;
  // Returns whether a call like this one may have these inputs: some numbers choose a place, which must be there.
  virtual bool admits(std::span<const OwnedTensor> /*inputs*/) const { return true; }
  // Returns what may be left out, what is largest first.
  virtual std::vector<Cut> cuts() const = 0;
  // Returns which of cuts() each axis of an input or a gradient is; -1: it stays whole.
  virtual std::vector<int> cuts_of(std::string_view tensor) const = 0;
  // Returns what then stays of an input or a gradient, by its dimensions.
  virtual Kept kept_of(std::string_view tensor, const Kept& kept) const = 0;
  // Returns the index that the element has in each cut; -1 where it adds up several.
  virtual std::vector<int64_t> cut_indices(const ElementId& id) const = 0;
  // Returns the images that samples read, if they do.
  virtual std::vector<Image> images() const { return {}; }
  // Returns the inputs with `count` pixels from `first` on of one side of an image. Coordinates move along, so that
  // samples land on the pixels they had, but for the rounding of the coordinates into their type.
  virtual Inputs cropped(size_t /*image*/, size_t /*side*/, int64_t /*first*/, int64_t /*count*/) const { return {}; }
  // Returns the inputs with one channel in place of all, of grad_output 1, that gives the gradients of samples the same
  // values, but for rounding. Empty where several samples have a grad_output of their own.
  virtual Inputs merged_channels() const { return {}; }
};

// Whole numbers that have an integer type; store() (tensor.h) takes the others.
inline void store_integer(OwnedTensor& tensor, int64_t flat, int64_t number) {
  if (tensor.dtype == MSDA_INT32) {
    reinterpret_cast<int32_t*>(tensor.bytes.data())[flat] = static_cast<int32_t>(number);
  } else {
    reinterpret_cast<int64_t*>(tensor.bytes.data())[flat] = number;
  }
}

// Returns all indices of a dimension: 0, 1, ..., size - 1.
std::vector<int64_t> all_indices(int64_t size);

// Returns all indices of each dimension of a tensor.
Kept whole_of(const Tensor& tensor);

// Calls visit(small, whole) for every element of a tensor of this shape that stays: its row-major number among those
// that stay, and among all.
template <class Visit>
void for_each_kept(const Index& shape, const Kept& kept, Visit&& visit) {
  std::vector<size_t> at(shape.size(), 0);
  for (const auto& indices : kept) {
    if (indices.empty()) return;
  }
  for (int64_t small = 0;; ++small) {
    int64_t whole = 0;
    for (size_t i = 0; i < shape.size(); ++i) whole = whole * shape[i] + kept[i][at[i]];
    visit(small, whole);
    size_t dimension = shape.size();
    while (dimension > 0 && ++at[dimension - 1] == kept[dimension - 1].size()) at[--dimension] = 0;
    if (dimension == 0) return;
  }
}

// Returns the elements of a tensor that stay.
OwnedTensor sliced(const std::string& name, const Tensor& tensor, const Kept& kept);

// Returns the one of that name; throws std::out_of_range.
const OwnedTensor& tensor_named(std::span<const OwnedTensor> tensors, std::string_view name);

}  // namespace msda::analysis
