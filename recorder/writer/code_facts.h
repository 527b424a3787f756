// What a kernel's machine code says of its reproducibility: how many of its instructions are atomic, and how many fused
// multiply-adds it has. Told by CUDA's disassembler, where there is one.
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

namespace msda::record {

// instructions (without the padding behind the last), fused_multiply_adds (FFMA, DFMA; not HFMA2, by
// which compilers also load constants), and those that read, change and write memory in one: reductions (RED, whose
// result nobody takes), global_atomics, shared_atomics, and atomics, the sum of the three.
using CodeFactCounts = std::map<std::string, int64_t>;

// Counts in the output of nvdisasm, or of cuobjdump -sass, line by line.
class InstructionCounter {
 public:
  // Of one function; the lines of others are passed over.
  explicit InstructionCounter(std::string function) : function_(std::move(function)) {}
  void line(std::string_view line);
  // Empty if the function did not come.
  CodeFactCounts counts() const;

 private:
  std::string function_;
  bool inside_ = false, found_ = false;
  int64_t instructions_ = 0, padding_ = 0, fused_ = 0, reductions_ = 0, global_ = 0, shared_ = 0;
};

// Where nvdisasm or cuobjdump is: in one of these folders, then on PATH, in CUDA_HOME/bin, CUDA_PATH/bin, and
// /usr/local/cuda/bin. Empty if nowhere.
std::filesystem::path find_disassembler(const std::vector<std::filesystem::path>& first = {});

// One function of a cubin.
struct CubinFunction {
  std::string digest;  // of the cubin
  std::vector<std::byte> cubin;
  std::string name, architecture;  // "sm_90"; empty: unknown
};

// The counts of a function. Empty if the disassembler cannot be run, fails, does not know the function or takes longer
// than this: a capture is whole without them.
CodeFactCounts count_instructions(const std::filesystem::path& disassembler, const CubinFunction& function,
                                  std::chrono::milliseconds limit);

// The counts of functions, by digest, a few at a time; of each at most `limit`, of all at most `limit_of_all`.
using InstructionCounts = std::map<std::string, CodeFactCounts>;
InstructionCounts count_instructions(const std::filesystem::path& disassembler,
                                     const std::vector<CubinFunction>& functions, std::chrono::milliseconds limit,
                                     std::chrono::milliseconds limit_of_all);

}  // namespace msda::record
