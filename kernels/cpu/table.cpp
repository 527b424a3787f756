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
#if defined(MSDA_HAVE_X86_64)
namespace x86_64_v3 {
extern const Table kTable;
extern const GridTable kGridTable;
}  // namespace x86_64_v3
namespace x86_64_v4 {
extern const Table kTable;
extern const GridTable kGridTable;
}  // namespace x86_64_v4
#endif

namespace {

struct Copy {
  const Table& table;
  const GridTable& grid_table;
};

// Returns the fastest copy that MSDA_CPU_ISA allows: it names the highest; another name, or none, allows everything.
Copy choose() {
#if defined(MSDA_HAVE_X86_64)
  const char* forced = std::getenv("MSDA_CPU_ISA");
  const std::string_view most = forced == nullptr ? "" : forced;
  const bool v3 = most != "baseline" && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("bmi2");
  const bool v4 = most != "x86_64_v3" && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  if (v3 && v4) return {x86_64_v4::kTable, x86_64_v4::kGridTable};
  if (v3) return {x86_64_v3::kTable, x86_64_v3::kGridTable};
#endif
  return {baseline::kTable, baseline::kGridTable};
}

const Copy& chosen() {
  static const Copy copy = choose();
  return copy;
}

}  // namespace

const Table& table() { return chosen().table; }

const GridTable& grid_table() { return chosen().grid_table; }

}  // namespace msda::kernels::cpu
