// A small spool with one of everything: calls of the operator and of another kernel, whose tensors are dense, strided,
// expanded and zero; conventions that only outputs show; later attempts, counts, digests, code, seeds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "recorder/spool/frame.h"

namespace msda::tests {

struct RawFrame {
  uint32_t kind = 0;
  std::vector<std::byte> message, payload;
};

std::vector<RawFrame> frames_of_everything();

// With right checksums.
void write_spool(const std::string& path, const std::vector<RawFrame>& frames);

}  // namespace msda::tests
