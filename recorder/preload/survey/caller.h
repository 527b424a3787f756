// Who launches: what the calling thread's stack tells of it.
#pragma once

#include <string>

namespace msda::record {

// Empty texts for what the stack does not tell.
struct Caller {
  std::string node;       // of PyTorch's autograd: "ConvolutionBackward0"
  std::string operation;  // of PyTorch: "convolution_backward"
  std::string python;  // the innermost frame in Python, if this thread holds the interpreter's lock: "train.py:12 step"

  bool is_empty() const { return node.empty() && operation.empty() && python.empty(); }
};

// Of the thread that calls it, within a launch of the program's. Takes some hundred microseconds.
Caller caller_of_launch() noexcept;

}  // namespace msda::record
