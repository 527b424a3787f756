// Calls of libmsda on PyTorch's tensors, for msda_replay/torch/calls.py, which does the same by ctypes in several times
// the time where this module is missing or a call is unusual. PyTorch's ABI is not used, and of Python's only the
// stable one: a tensor is asked as Python would ask it, so that one build serves every version of both.
#include <cstring>

#include "tools/python/native/replaced.h"

namespace msda::python {
namespace {

constexpr Py_ssize_t kMostHead = 144, kMostInputs = 5, kMostArguments = 5;

// The C functions that do a call: on the host, and on a GPU.
struct Functions {
  void *on_host, *on_gpu;
};

msda_status call_function(void* function, void* const* p, Py_ssize_t count) {
  using P = void*;
  switch (count) {
    case 3:
      return reinterpret_cast<msda_status (*)(P, P, P)>(function)(p[0], p[1], p[2]);
    case 4:
      return reinterpret_cast<msda_status (*)(P, P, P, P)>(function)(p[0], p[1], p[2], p[3]);
    case 5:
      return reinterpret_cast<msda_status (*)(P, P, P, P, P)>(function)(p[0], p[1], p[2], p[3], p[4]);
    case 6:
      return reinterpret_cast<msda_status (*)(P, P, P, P, P, P)>(function)(p[0], p[1], p[2], p[3], p[4], p[5]);
    default:
      return reinterpret_cast<msda_status (*)(P, P, P, P, P, P, P)>(function)(p[0], p[1], p[2], p[3], p[4], p[5], p[6]);
  }
}

// Calls the function with a structure and `count` more pointers, with room for one more: on a GPU, the stream. Other
// threads of Python run meanwhile. Returns the status, or None if the GPU is not the current one.
PyObject* run_where(int device, const Functions& functions, void** pointers, Py_ssize_t count) {
  if (device != kHost && !torch->read_stream(device, pointers[count++])) Py_RETURN_NONE;
  void* const function = device == kHost ? functions.on_host : functions.on_gpu;
  return PyLong_FromLong(without_lock([&] { return call_function(function, pointers, count); }));
}

// A call's structure: what comes before its tensors, and the tensors.
struct Structure {
  alignas(int64_t) char bytes[kMostHead + kMostInputs * sizeof(msda_tensor)];
};

// Reads tensors that must all be on the first one's device, except those that must be on the host.
class SameDevice {
 public:
  bool read(PyObject* object, msda_tensor& to) {
    Tensor tensor;
    if (!torch->reader.read(object, tensor) || (is_known_ && tensor.device != device_)) return false;
    is_known_ = true;
    device_ = tensor.device;
    to = tensor.view;
    return true;
  }
  // Reads a tensor; or one on the host, as a tuple of it alone; or None, for one of rank 0.
  bool read_input(PyObject* object, msda_tensor& to) {
    if (object == Py_None) {
      to.dtype = MSDA_INT64;
      return true;
    }
    if (!PyTuple_Check(object)) return read(object, to);
    Tensor tensor;
    if (PyTuple_Size(object) != 1 || !torch->reader.read(PyTuple_GetItem(object, 0), tensor)) return false;
    to = tensor.view;
    return tensor.device == kHost;
  }
  int device() const { return device_; }

 private:
  bool is_known_ = false;
  int device_ = kHost;
};

PyObject* run(PyObject*, PyObject* parameters) {
  unsigned long long on_host = 0, on_gpu = 0;
  const char* head = nullptr;
  Py_ssize_t head_bytes = 0;
  PyObject *inputs = nullptr, *arguments = nullptr;
  if (!PyArg_ParseTuple(parameters, "KKy#O!O!:run", &on_host, &on_gpu, &head, &head_bytes, &PyTuple_Type, &inputs,
                        &PyTuple_Type, &arguments)) {
    return nullptr;
  }
  const Py_ssize_t input_count = PyTuple_Size(inputs), count = PyTuple_Size(arguments);
  if (torch == nullptr || head_bytes > kMostHead || input_count > kMostInputs || count < 2 || count > kMostArguments) {
    PyErr_SetString(PyExc_ValueError, "run: a call that no function of libmsda has");
    return nullptr;
  }
  Structure structure;
  std::memcpy(structure.bytes, head, static_cast<size_t>(head_bytes));
  SameDevice tensors;
  for (Py_ssize_t i = 0; i < input_count; ++i) {
    msda_tensor tensor{};
    if (!tensors.read_input(PyTuple_GetItem(inputs, i), tensor)) Py_RETURN_NONE;
    std::memcpy(structure.bytes + head_bytes + i * static_cast<Py_ssize_t>(sizeof tensor), &tensor, sizeof tensor);
  }
  msda_tensor others[kMostArguments];
  void* pointers[kMostArguments + 2] = {structure.bytes};
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* const argument = PyTuple_GetItem(arguments, i);
    if (argument == Py_None) continue;
    if (!tensors.read(argument, others[i])) Py_RETURN_NONE;
    pointers[1 + i] = &others[i];
  }
  return run_where(tensors.device(), {reinterpret_cast<void*>(on_host), reinterpret_cast<void*>(on_gpu)}, pointers,
                   1 + count);
}

PyObject* scatter_add(PyObject*, PyObject* parameters) {
  unsigned long long on_gpu = 0;
  long long dim = 0;
  int by_elements = 0;
  PyObject *sum = nullptr, *index = nullptr, *source = nullptr;
  if (!PyArg_ParseTuple(parameters, "KOLOOp:scatter_add", &on_gpu, &sum, &dim, &index, &source, &by_elements))
    return nullptr;
  Sum plain;
  void* stream = nullptr;
  if (torch == nullptr || !plain.read(sum, dim, index, source, by_elements != 0) ||
      !torch->read_stream(plain.to.device, stream)) {
    Py_RETURN_NONE;
  }
  return PyLong_FromLong(plain.add(reinterpret_cast<void*>(on_gpu), stream));
}

// Returns a function of Python, whose first argument in C is the tuple of what it keeps.
PyObject* keeping(PyMethodDef& function, PyObject* tuple) {
  const Owned kept(tuple);
  if (!kept) return nullptr;
  if (torch == nullptr) {
    PyErr_SetString(PyExc_ValueError, "use() must be called before");
    return nullptr;
  }
  return PyCFunction_NewEx(&function, kept.get(), nullptr);
}

PyObject* sum_in_place(PyObject*, PyObject* parameters) {
  static PyMethodDef function = {"add_in_place", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(add_in_place)),
                                 METH_VARARGS | METH_KEYWORDS, nullptr};
  unsigned long long on_gpu = 0;
  PyObject *otherwise = nullptr, *by_elements = nullptr, *unless = nullptr;
  if (!PyArg_ParseTuple(parameters, "KOO!O!:sum_in_place", &on_gpu, &otherwise, &PyBool_Type, &by_elements,
                        &PyList_Type, &unless)) {
    return nullptr;
  }
  return keeping(function, Py_BuildValue("(KOOO)", on_gpu, otherwise, by_elements, unless));
}

PyObject* index_put_in_place(PyObject*, PyObject* parameters) {
  static PyMethodDef function = {"put_in_place", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(put_in_place)),
                                 METH_VARARGS | METH_KEYWORDS, nullptr};
  unsigned long long on_gpu = 0;
  PyObject* otherwise = nullptr;
  if (!PyArg_ParseTuple(parameters, "KO:index_put_in_place", &on_gpu, &otherwise)) return nullptr;
  return keeping(function, Py_BuildValue("(KO)", on_gpu, otherwise));
}

PyObject* counts(PyObject*, PyObject*) {
  return Py_BuildValue("(LLL)", static_cast<long long>(done[0]), static_cast<long long>(done[1]),
                       static_cast<long long>(done[2]));
}

PyObject* use(PyObject*, PyObject* parameters) {
  PyObject *dtypes = nullptr, *current_device = nullptr, *current_stream = nullptr, *check_status = nullptr,
           *type = nullptr;
  if (!PyArg_ParseTuple(parameters, "O!OOOO:use", &PyDict_Type, &dtypes, &current_device, &current_stream,
                        &check_status, &type)) {
    return nullptr;
  }
  for (PyObject* const kept : {current_device, current_stream, check_status}) Py_INCREF(kept);
  torch = new Torch{Reader(dtypes, type), current_device, current_stream, check_status};  // for as long as Python runs
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {{"use", use, METH_VARARGS,
                          "use(dtypes, current_device, current_stream, check_status, tensor): what the calls need: "
                          "PyTorch's types with libmsda's numbers of them; functions that return the current GPU's "
                          "number and a GPU's current stream, and one that raises the exception of a msda_status; and "
                          "the class of PyTorch's tensors."},
                         {"run", run, METH_VARARGS,
                          "run(on_host, on_gpu, head, inputs, arguments): calls the function at one of the addresses "
                          "with a structure (its bytes before "
                          "the tensors, and the tensors; one that has to be on the host is in a tuple of its own, and "
                          "None is one of rank 0), more "
                          "tensors or None, and on a GPU its current stream. Returns the msda_status, or None if "
                          "nothing was called because a tensor is "
                          "none that libmsda takes as it is, or they are not on one device, the current one."},
                         {"scatter_add", scatter_add, METH_VARARGS,
                          "scatter_add(on_gpu, sum, dim, index, source, by_elements): the same for "
                          "msda_cuda_scatter_add, with sums that are included. "
                          "Returns None also if the call is none that PyTorch would accept, or shares memory."},
                         {"sum_in_place", sum_in_place, METH_VARARGS,
                          "sum_in_place(on_gpu, otherwise, by_elements, unless): a function (self, dim, index, source) "
                          "that does the same and returns self, or what otherwise returns, which it calls for what is "
                          "not plain, and while the list `unless` has elements."},
                         {"index_put_in_place", index_put_in_place, METH_VARARGS,
                          "index_put_in_place(on_gpu, otherwise): a function (self, indices, values, accumulate=False) "
                          "for msda_cuda_index_put."},
                         {"counts", counts, METH_NOARGS,
                          "counts(): how many calls the functions of sum_in_place, by rows and by elements, and of "
                          "index_put_in_place did themselves."},
                         {nullptr, nullptr, 0, nullptr}};

PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "msda_torch_calls", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace msda::python

PyMODINIT_FUNC PyInit_msda_torch_calls() { return PyModule_Create(&msda::python::module); }
