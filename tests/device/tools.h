// CUDA's tools, where they are, and what else the tests of machine code have in common.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "tests/support/in_a_folder.h"

namespace msda::record::test {

inline std::span<const std::byte> as_span(const std::string& text) { return std::as_bytes(std::span(text)); }

inline std::string sm(int architecture) { return "sm_" + std::to_string(architecture); }

inline constexpr const char* kPtxas = "/usr/local/cuda/bin/ptxas";
inline constexpr const char* kNvcc = "/usr/local/cuda/bin/nvcc";
inline bool has_ptxas() { return access(kPtxas, X_OK) == 0; }
inline bool has_cuda_compiler() { return has_ptxas() && access(kNvcc, X_OK) == 0; }

// What a command makes, in a folder of its own that is removed, of the file "input" in the file "output"; empty if it
// fails.
inline std::string output_of(const std::string& command, const std::string& input) {
  const tests::TemporaryFolder temporary;
  const std::string folder = temporary.path.string();
  std::ofstream(folder + "/input", std::ios::binary) << input;
  std::string output;
  if (std::system(("cd '" + folder + "' && " + command).c_str()) == 0) {
    std::ifstream file(folder + "/output", std::ios::binary);
    output.assign(std::istreambuf_iterator<char>(file), {});
  }
  return output;
}
// PTX for sm_80, of which ptxas makes code for any later architecture.
inline std::string compile_to_ptx(const std::string& source) {
  return output_of(std::string(kNvcc) + " -x cu -ptx -arch=compute_80 input -o output", source);
}
inline std::string assemble(const std::string& ptx, const std::string& architecture) {
  return output_of(std::string(kPtxas) + " -arch=" + architecture + " input -o output", ptx);
}

// The text with up to three bytes changed, half of them in the headers at both ends of a cubin. A vector, beyond whose
// end sanitizers see reads.
inline std::vector<char> damage(const std::string& text, std::mt19937& random) {
  std::vector<char> damaged(text.begin(), text.end());
  const size_t size = damaged.size();
  for (int change = 0; change < 3 && size > 0; ++change) {
    const char values[] = {'\0', '\x7f', '\xff', static_cast<char>(random())};
    const size_t place = random() % size, from_end = size - 1 - place % std::min<size_t>(size, 448);
    const size_t header = random() % 2 == 0 ? place % 64 : from_end;
    damaged[(random() % 2 == 0 ? place : header) % size] = values[random() % 4];
  }
  return damaged;
}

}  // namespace msda::record::test
