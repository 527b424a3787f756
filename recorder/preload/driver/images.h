// The machine code of recorded functions: stored when the driver loads it, looked up by the function.
//
// There are two sources. The driver hook sees what the program hands to the driver: a cubin, as Triton does, or a
// fatbin, whose cubins may be compressed. CUPTI hands over the plain cubin of whatever is loaded, but does not say
// which module it belongs to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "recorder/preload/driver/driver_api.h"

namespace msda::record {

struct Image {
  std::span<const std::byte> bytes;  // a cubin: an ELF file
  std::string digest;
};

// Returns the cubin that holds this function; null if it is not known for certain. Two modules may have functions of
// one name, as an autotuner's variants do. With `is_kernel` the function is a CUkernel. Calls the driver, and may make
// it load the function, so it must not be called while the stream is captured into a CUDA graph.
std::shared_ptr<const Image> image_of(cuda::Function function, bool is_kernel) noexcept;

// Where a variable of the function's code lies in the current context. Nothing if the driver does not know it.
struct VariablePlace {
  cuda::DevicePointer address = 0;
  size_t bytes = 0;
};
std::optional<VariablePlace> variable_of(cuda::Function function, bool is_kernel, const std::string& name);

// What the driver says about a function's code: "sm_90"; registers, shared_bytes, local_bytes, constant_bytes,
// max_threads. Empty if it says nothing.
struct CodeFacts {
  std::string architecture;
  std::map<std::string, int64_t> integers;
};
CodeFacts code_facts_of(cuda::Function function, bool is_kernel) noexcept;

// Returns whether a function of this name may be recorded; only cubins with such a function are stored.
using CodeFilter = bool (*)(std::string_view function);

// A handle that owns code, for the hooks.
struct Owner {
  enum Kind { kNone, kModule, kLibrary, kCupti } kind = kNone;
  uint64_t handle = 0;  // a CUmodule, a CUlibrary, or CUPTI's number of a module
  auto operator<=>(const Owner&) const = default;
};

// Lives while the driver loads code on this thread. The cubins that CUPTI hands over meanwhile belong to that code.
class Loading {
 public:
  Loading() noexcept;
  ~Loading();
  Loading(const Loading&) = delete;
  Loading& operator=(const Loading&) = delete;

  // Called when the driver has loaded it, from this image or, if null, from one that was seen before.
  void done(Owner owner, const void* image, CodeFilter is_interesting) noexcept;

 private:
  friend void cubin_loaded(uint32_t, const void*, size_t, CodeFilter) noexcept;
  Loading* outer_;
  std::set<Owner> arrived_;  // by CUPTI's numbers
};

// While it lives, code that the driver loads on this thread is the recorder's own, and not stored.
class OwnCode {
 public:
  OwnCode() noexcept;
  ~OwnCode();
  OwnCode(const OwnCode&) = delete;
  OwnCode& operator=(const OwnCode&) = delete;
};

// Called by CUPTI's callbacks; neither calls CUDA.
void cubin_loaded(uint32_t cupti_module, const void* cubin, size_t bytes, CodeFilter is_interesting) noexcept;
void unloaded(Owner owner) noexcept;

// Called when a context is about to end, and with it the code that was loaded into it.
void context_unloaded() noexcept;

// Returns how often code was unloaded so far.
uint64_t unloads() noexcept;

// Sets whether CUPTI has handed over every cubin so far, and goes on doing so.
void set_cubins_arrive(bool arrive) noexcept;

}  // namespace msda::record
