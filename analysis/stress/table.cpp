#include "analysis/stress/loops.h"
#include "kernels/cpu/instruction_set.h"

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
  static const bool wide = kernels::cpu::instruction_set() >= kernels::cpu::InstructionSet::kX86_64_v3;
  if (wide) return x86_64_v3::kLoops;
#endif
  return baseline::kLoops;
}

}  // namespace msda::analysis::stress
