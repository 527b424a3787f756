// How the kernel that occupies multiprocessors (spin.ptx) is launched.
#pragma once

#include <cstdint>

namespace msda::record {

inline constexpr char kSpinKernel[] = "msda_record_spin";
inline constexpr unsigned kSpinThreads = 1024;    // of a block
inline constexpr uint64_t kSpinCycles = 1 << 20;  // half a millisecond at 2 GHz

}  // namespace msda::record
