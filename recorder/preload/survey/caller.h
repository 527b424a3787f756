// Finds out from the calling thread's stack who launches.
#pragma once

#include <string>

namespace msda::record {

// A text is empty if the stack does not show it.
struct Caller {
  std::string node;       // of PyTorch's autograd: "ConvolutionBackward0"
  std::string operation;  // of PyTorch: "convolution_backward"
  std::string python;  // the innermost frame in Python, if this thread holds the interpreter's lock: "train.py:12 step"

  bool is_empty() const { return node.empty() && operation.empty() && python.empty(); }
};

// Looks at the thread that calls it, within a launch of the program's. Takes some hundred microseconds.
Caller caller_of_launch() noexcept;

}  // namespace msda::record
