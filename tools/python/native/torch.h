// What calls of libmsda need of PyTorch, once it is there: its tensors, and the current stream.
#pragma once

#include "tools/python/native/tensors.h"

namespace msda::python {

struct Torch {
  Reader reader;
  PyObject *current_device, *current_stream;  // functions: the current GPU's number, a GPU's current stream
  PyObject* check_status;                     // raises the exception of a msda_status

  // Reads the current stream of a GPU, as a pointer. Returns false, without an exception, if the GPU is not the current
  // one.
  bool read_stream(int device, void*& stream) const {
    const Owned current(PyObject_CallFunctionObjArgs(current_device, nullptr));
    int64_t number = kHost;
    const bool is_current = current && read_number(current.get(), number) && number == device;
    if (is_current && reader.exchange().read_stream(device, stream)) return true;
    const Owned of_gpu(is_current ? PyObject_CallFunctionObjArgs(current_stream, current.get(), nullptr) : nullptr);
    if (of_gpu) stream = PyLong_AsVoidPtr(of_gpu.get());
    if (of_gpu && PyErr_Occurred() == nullptr) return true;
    PyErr_Clear();
    return false;
  }
};

// Null until then.
inline const Torch* torch = nullptr;

// Runs call() while other threads of Python run.
template <class Call>
msda_status without_lock(Call&& call) {
  PyThreadState* const thread = PyEval_SaveThread();
  const msda_status status = call();
  PyEval_RestoreThread(thread);
  return status;
}

}  // namespace msda::python
