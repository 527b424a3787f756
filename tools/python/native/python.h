// Python's stable ABI, from 3.9 on, and its objects in C++.
#pragma once

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03090000  // NOLINT: Python's name
#include <Python.h>

#include <cstdint>

namespace msda::python {

// A reference, or null where Python has raised an exception.
class Owned {
 public:
  explicit Owned(PyObject* object) : object_(object) {}
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() { Py_XDECREF(object_); }
  PyObject* get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_;
};

// Returns false if it is no integer of 64 bits: Python has raised an exception then.
inline bool read_number(PyObject* object, int64_t& to) {
  to = PyLong_AsLongLong(object);
  return to != -1 || PyErr_Occurred() == nullptr;
}

}  // namespace msda::python
