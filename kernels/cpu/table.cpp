#include "kernels/cpu/table.h"

#include <cstdlib>
#include <string_view>

#include "kernels/cpu/grid_table.h"

namespace msda::kernels::cpu {

// loops.cpp and grid_loops.cpp define them once for each value of MSDA_ISA that CMake passes.
inline namespace baseline {
extern const Table kTable;
extern const GridTable kGridTable;
}  // namespace baseline
#if defined(MSDA_HAVE_X86_64_V3)
namespace x86_64_v3 {
extern const Table kTable;
extern const GridTable kGridTable;
}  // namespace x86_64_v3
#endif

#if defined(MSDA_HAVE_X86_64_V3)
namespace {

bool use_x86_64_v3() {
  static const bool use = [] {
    const char* forced = std::getenv("MSDA_CPU_ISA");
    if (forced != nullptr && std::string_view(forced) == "baseline") return false;
    return static_cast<bool>(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
  }();
  return use;
}

}  // namespace
#endif

const Table& table() {
#if defined(MSDA_HAVE_X86_64_V3)
  if (use_x86_64_v3()) return x86_64_v3::kTable;
#endif
  return baseline::kTable;
}

const GridTable& grid_table() {
#if defined(MSDA_HAVE_X86_64_V3)
  if (use_x86_64_v3()) return x86_64_v3::kGridTable;
#endif
  return baseline::kGridTable;
}

}  // namespace msda::kernels::cpu
