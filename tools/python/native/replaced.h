// Functions that PyTorch calls in place of operators of its own, without Python's interpreter on the way of a plain
// call. What is not plain goes to `otherwise`, a function of Python with the same arguments.
#pragma once

#include "kernels/scatter_add.h"
#include "tools/python/native/index_put.h"
#include "tools/python/native/scatter.h"
#include "tools/python/native/torch.h"

namespace msda::python {

// A sum that is plain, and what libmsda takes of it.
struct Sum {
  Tensor to, index, source;
  int32_t dim = 0;

  bool read(PyObject* sum, int64_t along, PyObject* of_rows, PyObject* from, bool by_elements) {
    const Reader& reader = torch->reader;
    if (!reader.read(sum, to) || !reader.read(of_rows, index) || !reader.read(from, source)) return false;
    if (along < 0) along += to.view.rank;
    dim = static_cast<int32_t>(along);
    return is_plain(to, along, index, source, by_elements);
  }
  msda_status add(void* on_gpu, void* stream) const {
    const msda_scatter_add_call call{MSDA_SCATTER_SUM, dim, 1, -1, index.view, source.view};
    using Function = decltype(msda_cuda_scatter_add);
    return without_lock([&] { return reinterpret_cast<Function*>(on_gpu)(&call, nullptr, &to.view, stream); });
  }
};

// What a replaced function keeps: a tuple of these.
class Kept {
 public:
  explicit Kept(PyObject* tuple) : tuple_(tuple) {}
  void* on_gpu() const { return PyLong_AsVoidPtr(PyTuple_GetItem(tuple_, 0)); }
  PyObject* otherwise() const { return PyTuple_GetItem(tuple_, 1); }
  // For sums only.
  bool by_elements() const { return PyTuple_GetItem(tuple_, 2) == Py_True; }
  // Returns whether all calls go to `otherwise` now.
  bool is_suspended() const { return PyList_Size(PyTuple_GetItem(tuple_, 3)) != 0; }

 private:
  PyObject* tuple_;
};

// Returns what a replaced function returns that has written to `self`: `self`, or an exception.
inline PyObject* written(PyObject* self, msda_status status) {
  if (status != MSDA_OK) {
    const Owned number(PyLong_FromLong(status));
    const Owned raised(number ? PyObject_CallFunctionObjArgs(torch->check_status, number.get(), nullptr) : nullptr);
    if (!raised) return nullptr;
  }
  Py_INCREF(self);
  return self;
}

// How many calls these functions did without Python: sums by rows, sums by elements, rows written.
inline int64_t done[3] = {};

inline bool has_none(PyObject* keywords) { return keywords == nullptr || PyDict_Size(keywords) == 0; }

// index_add_(self, dim, index, source) and scatter_add_(self, dim, index, src).
inline PyObject* add_in_place(PyObject* tuple, PyObject* arguments, PyObject* keywords) {
  const Kept kept(tuple);
  if (has_none(keywords) && PyTuple_Size(arguments) == 4 && !kept.is_suspended()) {
    PyObject* const self = PyTuple_GetItem(arguments, 0);
    int64_t dim = 0;
    const bool is_number = read_number(PyTuple_GetItem(arguments, 1), dim);
    if (!is_number) PyErr_Clear();
    Sum sum;
    void* stream = nullptr;
    if (is_number &&
        sum.read(self, dim, PyTuple_GetItem(arguments, 2), PyTuple_GetItem(arguments, 3), kept.by_elements()) &&
        torch->read_stream(sum.to.device, stream)) {
      ++done[kept.by_elements() ? 1 : 0];
      return written(self, sum.add(kept.on_gpu(), stream));
    }
  }
  return PyObject_Call(kept.otherwise(), arguments, keywords);
}

// index_put_(self, indices, values), without accumulate.
inline PyObject* put_in_place(PyObject* tuple, PyObject* arguments, PyObject* keywords) {
  const Kept kept(tuple);
  const Py_ssize_t count = PyTuple_Size(arguments);
  if (has_none(keywords) && (count == 3 || (count == 4 && PyTuple_GetItem(arguments, 3) == Py_False))) {
    PyObject* const self = PyTuple_GetItem(arguments, 0);
    const std::optional<IndexPut> put =
        plain_index_put(torch->reader.exchange(), self, PyTuple_GetItem(arguments, 1), PyTuple_GetItem(arguments, 2));
    void* stream = nullptr;
    if (put && torch->read_stream(put->device, stream)) {
      ++done[2];
      using Function = decltype(msda_cuda_index_put);
      return written(self,
                     without_lock([&] { return reinterpret_cast<Function*>(kept.on_gpu())(&put->call, stream); }));
    }
  }
  return PyObject_Call(kept.otherwise(), arguments, keywords);
}

}  // namespace msda::python
