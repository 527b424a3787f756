// Which copy runs of a source that is compiled once for each instruction set.
#pragma once

#include <cstdlib>
#include <string_view>

namespace msda::kernels::cpu {

enum class InstructionSet { kBaseline, kX86_64_v3, kX86_64_v4 };

// Returns the highest that the processor has and MSDA_CPU_ISA allows: it names the highest; another name, or none,
// allows everything.
inline InstructionSet instruction_set() {
#if defined(__x86_64__)
  const char* forced = std::getenv("MSDA_CPU_ISA");
  const std::string_view most = forced == nullptr ? "" : forced;
  const bool v3 = most != "baseline" && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("bmi2");
  const bool v4 = most != "x86_64_v3" && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  if (v3) return v4 ? InstructionSet::kX86_64_v4 : InstructionSet::kX86_64_v3;
#endif
  return InstructionSet::kBaseline;
}

}  // namespace msda::kernels::cpu
