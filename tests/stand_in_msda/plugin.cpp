// A plug-in that is linked to libmsda, as an extension module of Python's would be: its host has no other libmsda.
#include "kernels/msda.h"

extern "C" MSDA_API msda_status plugin_backward(const msda_call* call, const msda_tensor* grad_output,
                                                const msda_tensor* grad_value) {
  return msda_backward(call, grad_output, nullptr, grad_value, nullptr, nullptr);
}
