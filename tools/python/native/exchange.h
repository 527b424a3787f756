// DLPack's functions in C for a tensor class of Python, which read a tensor without Python's attributes: once within a
// training step, where caches are cold, these take longer than the rest of a call. PyTorch has them from 2.10 on. Only
// what is used is declared here, as DLPack 1.3 has it (https://dmlc.github.io/dlpack/latest/c_api.html): later minor
// versions add to it, and another major version is not used.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tools/python/native/tensor.h"

namespace msda::python {

// The type of a tensor's elements, as DLPack has it.
struct ElementType {
  uint8_t code, bits;
  bool operator==(const ElementType& type) const { return code == type.code && bits == type.bits; }
  // Returns 0 if the elements are not whole bytes.
  int bytes() const { return bits % 8 == 0 ? bits / 8 : 0; }
  // Returns false if libmsda has no such type.
  bool read(msda_dtype& to) const {
    struct Known {
      ElementType type;
      msda_dtype dtype;
    };
    constexpr uint8_t kInt = 0, kFloat = 2, kBfloat = 4;
    constexpr Known kKnown[] = {{{kFloat, 32}, MSDA_FLOAT32}, {{kInt, 64}, MSDA_INT64},
                                {{kFloat, 16}, MSDA_FLOAT16}, {{kBfloat, 16}, MSDA_BFLOAT16},
                                {{kFloat, 64}, MSDA_FLOAT64}, {{kInt, 32}, MSDA_INT32}};
    for (const Known& known : kKnown) {
      if (known.type == *this) {
        to = known.dtype;
        return true;
      }
    }
    return false;
  }
};

class Exchange {
 public:
  // `type`: the class, or null for none.
  explicit Exchange(PyObject* type) : type_(type) {
    const Owned capsule(type == nullptr ? nullptr : PyObject_GetAttrString(type, "__dlpack_c_exchange_api__"));
    const auto* const found =
        capsule ? static_cast<const Functions*>(PyCapsule_GetPointer(capsule.get(), "dlpack_exchange_api")) : nullptr;
    PyErr_Clear();
    if (found == nullptr || found->major != 1 || found->read == nullptr || found->stream_of == nullptr) return;
    functions_ = found;  // they live as long as the class
    Py_INCREF(type);
  }

  // Returns whether the object is of this very class: a subclass may hold its memory in other ways.
  bool knows(PyObject* object) const {
    return functions_ != nullptr && reinterpret_cast<PyObject*>(Py_TYPE(object)) == type_;
  }

  // Reads all but the type in libmsda's numbers. Returns false, without an exception, if the tensor has no bytes on the
  // host or a GPU, or too many dimensions.
  bool read(PyObject* tensor, Tensor& to, ElementType& type) const {
    Read read{};
    if (functions_->read(tensor, &read) != 0) {
      PyErr_Clear();
      return false;
    }
    if ((read.device_type != kCpu && read.device_type != kCuda) || read.rank > MSDA_MAX_RANK || read.lanes != 1) {
      return false;
    }
    to.device = read.device_type == kCpu ? kHost : read.device;
    to.view.data = static_cast<char*>(read.data) + read.byte_offset;
    to.view.rank = read.rank;
    std::copy_n(read.shape, read.rank, to.view.shape);
    std::copy_n(read.strides, read.rank, to.view.stride);
    type = read.type;
    return true;
  }

  // Reads the current stream of a GPU. Returns false, without an exception, if it is unknown.
  bool read_stream(int device, void*& stream) const {
    const bool is_told = functions_ != nullptr && functions_->stream_of(kCuda, device, &stream) == 0;
    if (!is_told) PyErr_Clear();
    return is_told;
  }

 private:
  static constexpr int32_t kCpu = 1, kCuda = 2;
  // DLTensor.
  struct Read {
    void* data;
    int32_t device_type, device, rank;
    ElementType type;
    uint16_t lanes;
    const int64_t *shape, *strides;
    uint64_t byte_offset;
  };
  // DLPackExchangeAPI.
  struct Functions {
    uint32_t major, minor;
    const void *earlier, *allocate, *export_managed, *import_managed;
    int (*read)(void* object, Read* to);
    int (*stream_of)(int32_t device_type, int32_t device, void** to);
  };

  PyObject* const type_;
  const Functions* functions_ = nullptr;
};

}  // namespace msda::python
