#include "recorder/preload/driver/element_type.h"

#include <cstdint>
#include <cstring>

namespace msda::record {
namespace {

// An instruction has 16 bytes; its lowest 9 bits say what it does, as nvdisasm -hex shows them.
constexpr size_t kInstruction = 16;
constexpr uint64_t kOperation = 0x1ff;
constexpr uint64_t kDmul = 0x028, kDadd = 0x029, kDfma = 0x02b, kF2fp = 0x03e;

}  // namespace

msda_dtype element_type_of(std::span<const std::byte> code) {
  bool rounds_to_16_bits = false;
  for (size_t at = 0; at + kInstruction <= code.size(); at += kInstruction) {
    uint64_t word = 0;
    std::memcpy(&word, code.data() + at, sizeof word);
    const uint64_t operation = word & kOperation;
    if (operation == kDmul || operation == kDadd || operation == kDfma) return MSDA_FLOAT64;
    rounds_to_16_bits = rounds_to_16_bits || operation == kF2fp;
  }
  return rounds_to_16_bits ? MSDA_FLOAT16 : MSDA_FLOAT32;
}

}  // namespace msda::record
