#include <cstdlib>
#include <string_view>

#include "analysis/stress/loops.h"

namespace msda::analysis::stress {

// loops.cpp defines them once for each value of MSDA_ISA that CMake passes.
inline namespace baseline {
extern const Loops kLoops;
}
#if defined(MSDA_HAVE_X86_64_V3)
namespace x86_64_v3 {
extern const Loops kLoops;
}
#endif

const Loops& loops() {
#if defined(MSDA_HAVE_X86_64_V3)
  static const bool wide = [] {
    const char* forced = std::getenv("MSDA_CPU_ISA");
    if (forced != nullptr && std::string_view(forced) == "baseline") return false;
    return static_cast<bool>(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
  }();
  if (wide) return x86_64_v3::kLoops;
#endif
  return baseline::kLoops;
}

}  // namespace msda::analysis::stress
