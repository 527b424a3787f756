#include "kernels/cpu/table.h"

#include "kernels/cpu/grid_table.h"
#include "kernels/cpu/instruction_set.h"

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

Copy choose() {
#if defined(MSDA_HAVE_X86_64)
  const InstructionSet highest = instruction_set();
  if (highest == InstructionSet::kX86_64_v4) return {x86_64_v4::kTable, x86_64_v4::kGridTable};
  if (highest == InstructionSet::kX86_64_v3) return {x86_64_v3::kTable, x86_64_v3::kGridTable};
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
