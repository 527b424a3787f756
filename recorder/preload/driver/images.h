// The machine code of the functions that are recorded: kept when the driver loads it, found again by the function.
//
// Code comes from two sides. The driver hook sees what the program hands to the driver: a cubin, as Triton's are, or a
// fatbin, whose cubins may be compressed. CUPTI hands over the plain cubin of whatever is loaded, but not whose it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
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

// The cubin that holds this function; null if it is not known for certain. Two modules may have functions of one name,
// as an autotuner's variants do. With `is_kernel` the function is a CUkernel. Calls the driver, and may make it load
// the function: not while its stream is captured into a graph.
std::shared_ptr<const Image> image_of(cuda::Function function, bool is_kernel) noexcept;

// What the driver says of a function's code: "sm_90"; registers, shared_bytes, local_bytes, constant_bytes,
// max_threads. Empty where it says nothing.
struct CodeFacts {
  std::string architecture;
  std::map<std::string, int64_t> integers;
};
CodeFacts code_facts_of(cuda::Function function, bool is_kernel) noexcept;

// Whether a function of this name may come to be recorded: only cubins with such a one are kept.
using CodeFilter = bool (*)(std::string_view function);

// For the hooks. What has a handle and code behind it.
struct Owner {
  enum Kind { kNone, kModule, kLibrary, kCupti } kind = kNone;
  uint64_t handle = 0;  // a CUmodule, a CUlibrary, or CUPTI's number of a module
  auto operator<=>(const Owner&) const = default;
};

// Lives while the driver loads code on this thread: the cubins that CUPTI hands over meanwhile belong to what is
// loaded.
class Loading {
 public:
  Loading() noexcept;
  ~Loading();
  Loading(const Loading&) = delete;
  Loading& operator=(const Loading&) = delete;

  // It is loaded, from this image or, if null, from one that was seen before.
  void done(Owner owner, const void* image, CodeFilter is_interesting) noexcept;

 private:
  friend void cubin_loaded(uint32_t, const void*, size_t, CodeFilter) noexcept;
  Loading* outer_;
  std::set<Owner> arrived_;  // by CUPTI's numbers
};

// From CUPTI's callbacks: neither calls CUDA.
void cubin_loaded(uint32_t cupti_module, const void* cubin, size_t bytes, CodeFilter is_interesting) noexcept;
void unloaded(Owner owner) noexcept;

// A context ends, and with it the code that was loaded into it.
void context_unloaded() noexcept;

// How often code was unloaded so far.
uint64_t unloads() noexcept;

// Whether CUPTI has handed over every cubin so far, and goes on.
void set_cubins_arrive(bool arrive) noexcept;

}  // namespace msda::record
