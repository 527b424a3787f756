// Turns exceptions into the C ABI's error codes and messages.
#pragma once

#include <exception>
#include <new>
#include <stdexcept>
#include <string>

#include "kernels/checked/call.h"
#include "kernels/msda.h"

namespace msda::kernels {

// Becomes MSDA_UNAVAILABLE.
struct Unavailable : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// Becomes MSDA_CUDA_ERROR.
struct CudaError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Returns the text that msda_last_error() returns in this thread.
std::string& last_error();

// Returns the options for an operator with so many stages, or the default ones for a null pointer. Throws
// InvalidArgument.
msda_options checked_options(const msda_options* options, int stages = MSDA_STAGE_COUNT);

template <class Body>
msda_status guarded(Body&& body) noexcept {
  const auto failed = [](msda_status status, const char* why) {
    last_error() = why;
    return status;
  };
  try {
    try {
      body();
      return MSDA_OK;
    } catch (const InvalidArgument& e) {
      return failed(MSDA_INVALID_ARGUMENT, e.what());
    } catch (const Unavailable& e) {
      return failed(MSDA_UNAVAILABLE, e.what());
    } catch (const CudaError& e) {
      return failed(MSDA_CUDA_ERROR, e.what());
    } catch (const std::bad_alloc&) {
      return failed(MSDA_OUT_OF_MEMORY, "out of memory");
    } catch (const std::exception& e) {
      return failed(MSDA_INTERNAL_ERROR, e.what());
    }
  } catch (...) {  // building the message failed
    return MSDA_INTERNAL_ERROR;
  }
}

}  // namespace msda::kernels
