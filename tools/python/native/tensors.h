// Reads tensors of Python.
#pragma once

#include "tools/python/native/exchange.h"

namespace msda::python {

// What is asked of a tensor, as Python's strings.
struct Names {
  PyObject* data_ptr = PyUnicode_InternFromString("data_ptr");
  PyObject* dtype = PyUnicode_InternFromString("dtype");
  PyObject* get_device = PyUnicode_InternFromString("get_device");
  PyObject* is_cpu = PyUnicode_InternFromString("is_cpu");
  PyObject* is_cuda = PyUnicode_InternFromString("is_cuda");
  PyObject* shape = PyUnicode_InternFromString("shape");
  PyObject* stride = PyUnicode_InternFromString("stride");
};

// Reads tensors. A reader is made once and lives as long as Python.
class Reader {
 public:
  // dtypes: the types of tensors, with libmsda's numbers of them. type: the class of most tensors, or null.
  Reader(PyObject* dtypes, PyObject* type) : exchange_(type), dtypes_(dtypes) { Py_INCREF(dtypes); }

  // Returns false, without an exception, if libmsda cannot take the tensor as it is: another device or type, too many
  // dimensions, or no tensor.
  bool read(PyObject* tensor, Tensor& to) const {
    if (exchange_.knows(tensor)) {
      ElementType type{};
      return exchange_.read(tensor, to, type) && type.read(to.view.dtype);
    }
    const bool is_read = read_place(tensor, to) && read_type(tensor, to) && read_layout(tensor, to);
    if (!is_read) PyErr_Clear();
    return is_read;
  }
  const Exchange& exchange() const { return exchange_; }

 private:
  bool read_place(PyObject* tensor, Tensor& to) const {
    const Owned pointer(PyObject_CallMethodObjArgs(tensor, names_.data_ptr, nullptr));
    if (!pointer) return false;
    to.view.data = PyLong_AsVoidPtr(pointer.get());
    if (PyErr_Occurred() != nullptr) return false;
    const Owned is_cuda(PyObject_GetAttr(tensor, names_.is_cuda));
    if (!is_cuda) return false;
    if (is_cuda.get() != Py_True) {
      const Owned is_cpu(PyObject_GetAttr(tensor, names_.is_cpu));
      return is_cpu.get() == Py_True;
    }
    const Owned device(PyObject_CallMethodObjArgs(tensor, names_.get_device, nullptr));
    int64_t number = 0;
    if (!device || !read_number(device.get(), number)) return false;
    to.device = static_cast<int>(number);
    return true;
  }

  bool read_type(PyObject* tensor, Tensor& to) const {
    const Owned dtype(PyObject_GetAttr(tensor, names_.dtype));
    if (!dtype) return false;
    PyObject* const known = PyDict_GetItem(dtypes_, dtype.get());
    int64_t number = 0;
    if (known == nullptr || !read_number(known, number)) return false;
    to.view.dtype = static_cast<msda_dtype>(number);
    return true;
  }

  bool read_layout(PyObject* tensor, Tensor& to) const {
    const Owned shape(PyObject_GetAttr(tensor, names_.shape));
    if (!shape || !PyTuple_Check(shape.get())) return false;
    const Owned stride(PyObject_CallMethodObjArgs(tensor, names_.stride, nullptr));
    if (!stride || !PyTuple_Check(stride.get())) return false;
    const Py_ssize_t rank = PyTuple_Size(shape.get());
    if (rank > MSDA_MAX_RANK || PyTuple_Size(stride.get()) != rank) return false;
    to.view.rank = static_cast<int32_t>(rank);
    for (Py_ssize_t i = 0; i < rank; ++i) {
      if (!read_number(PyTuple_GetItem(shape.get(), i), to.view.shape[i])) return false;
      if (!read_number(PyTuple_GetItem(stride.get(), i), to.view.stride[i])) return false;
    }
    return true;
  }

  const Exchange exchange_;
  const Names names_;
  PyObject* const dtypes_;
};

}  // namespace msda::python
