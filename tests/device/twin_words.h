// What tests of twins have in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "recorder/device/instruction_words.h"
#include "recorder/device/twin.h"
#include "tests/device/atomic_kernels.h"
#include "tests/device/tools.h"

namespace msda::record::test {

inline constexpr int kTwinArchitectures[] = {80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};

inline TwinOperation twin_operation(AtomicOperation operation) {
  return static_cast<TwinOperation>(static_cast<int>(operation) - 1);  // without kFloat
}

inline InstructionWords words_at(std::span<const std::byte> code, uint64_t offset) {
  return InstructionWords(code.subspan(offset).first<kInstructionBytes>());
}

}  // namespace msda::record::test
