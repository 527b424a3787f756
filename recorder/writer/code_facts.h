// What a kernel's machine code says about its reproducibility: the number of atomic instructions and of fused
// multiply-adds, counted in the output of CUDA's disassembler, if it is installed.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "recorder/capture/capture.h"

namespace msda::record {

// instructions (without the padding behind the last), fused_multiply_adds (FFMA, DFMA; not HFMA2, by which compilers
// also load constants), and atomic instructions: reductions (RED and the like, whose result is not used),
// global_atomics, shared_atomics, and atomics, the sum of the three; float_atomics are those that may add
// floating-point numbers.
using CodeFactCounts = std::map<std::string, int64_t>;

// Counts instructions in the output of nvdisasm, or of cuobjdump -sass, line by line.
class InstructionCounter {
 public:
  // Counts one function; lines of others are skipped.
  explicit InstructionCounter(std::string function) : function_(std::move(function)) {}
  void line(std::string_view line);
  // Empty if the output did not contain the function.
  CodeFactCounts counts() const;

 private:
  std::string function_;
  bool inside_ = false, found_ = false;
  int64_t instructions_ = 0, padding_ = 0, fused_ = 0, reductions_ = 0, global_ = 0, shared_ = 0, float_ = 0;
};

// Finds nvdisasm or cuobjdump in these folders, then in PATH, CUDA_HOME/bin, CUDA_PATH/bin and /usr/local/cuda/bin.
// Empty if there is none.
std::filesystem::path find_disassembler(const std::vector<std::filesystem::path>& first = {});

// Names a function: several may be in one image.
struct Function {
  std::string image;  // its digest
  std::string name;
  friend auto operator<=>(const Function&, const Function&) = default;
};

struct CubinFunction {
  Function function;
  capture::SharedBytes cubin;
  std::string architecture;  // "sm_90"; empty: unknown
};

// The counts of a function. Empty if the disassembler cannot be run, fails, does not find the function or exceeds the
// limit; a capture is complete without them.
CodeFactCounts count_instructions(const std::filesystem::path& disassembler, const CubinFunction& function,
                                  std::chrono::milliseconds limit);

// The counts of functions, a few in parallel: at most `limit` for each and `limit_of_all` for all.
using InstructionCounts = std::map<Function, CodeFactCounts>;
InstructionCounts count_instructions(const std::filesystem::path& disassembler,
                                     const std::vector<CubinFunction>& functions, std::chrono::milliseconds limit,
                                     std::chrono::milliseconds limit_of_all);

}  // namespace msda::record
