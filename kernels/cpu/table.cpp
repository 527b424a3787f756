#include "kernels/cpu/table.h"

#include <cstdlib>
#include <string_view>

namespace msda::kernels::cpu {

// loops.cpp defines it once for each value of MSDA_ISA that CMake passes.
inline namespace baseline {
extern const Table kTable;
}
#if defined(MSDA_HAVE_X86_64_V3)
namespace x86_64_v3 {
extern const Table kTable;
}
#endif

const Table& table() {
#if defined(MSDA_HAVE_X86_64_V3)
  static const bool use_v3 = [] {
    const char* forced = std::getenv("MSDA_CPU_ISA");
    if (forced != nullptr && std::string_view(forced) == "baseline") return false;
    return static_cast<bool>(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
  }();
  if (use_v3) return x86_64_v3::kTable;
#endif
  return baseline::kTable;
}

}  // namespace msda::kernels::cpu
