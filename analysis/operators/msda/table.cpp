#include "analysis/operators/msda/loops.h"
#include "kernels/cpu/instruction_set.h"

namespace msda::analysis {

// loops.cpp defines them once for each value of MSDA_ISA that CMake passes.
inline namespace baseline {
extern const ScreenLoops kScreenLoops;
}
#if defined(MSDA_HAVE_X86_64_V3)
namespace x86_64_v3 {
extern const ScreenLoops kScreenLoops;
}
#endif

const ScreenLoops& screen_loops() {
#if defined(MSDA_HAVE_X86_64_V3)
  static const bool wide = kernels::cpu::instruction_set() >= kernels::cpu::InstructionSet::kX86_64_v3;
  if (wide) return x86_64_v3::kScreenLoops;
#endif
  return baseline::kScreenLoops;
}

}  // namespace msda::analysis
