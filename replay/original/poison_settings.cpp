#include "replay/original/poison_settings.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/numbers/tensor.h"

namespace msda::replay {
namespace {

using Contents = PoisonSetting::Contents;
using Memory = PoisonSetting::Memory;

// Returns false for an output that the kernel also reads as an input.
bool can_be_changed(const Relaunch& plan, const Buffer& output) {
  return kernels::is_float(output.before->type) && std::ranges::none_of(plan.buffers, [&](const Buffer& buffer) {
           return !buffer.is_output && buffer.address == output.address;
         });
}

}  // namespace

const char* name_of(Contents contents) {
  switch (contents) {
    case Contents::kRecorded:
      return "recorded";
    case Contents::kZero:
      return "zero";
    case Contents::kNan:
      return "nan";
    case Contents::kPattern:
      return "pattern";
  }
  return "";
}

std::vector<PoisonSetting> poison_settings(const Relaunch& plan) {
  std::vector<PoisonSetting> settings{{}};
  const auto add = [&](Memory memory, size_t number, const std::string& name) {
    for (const Contents contents : {Contents::kZero, Contents::kNan, Contents::kPattern}) {
      settings.push_back({memory, number, contents, name});
    }
  };
  size_t output = 0;
  for (const Buffer& buffer : plan.buffers) {
    if (!buffer.is_output) continue;
    if (can_be_changed(plan, buffer)) add(Memory::kOutput, output, buffer.name);
    ++output;
  }
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const Buffer& buffer = plan.buffers[i];
    if (!buffer.unwritten.empty()) add(Memory::kUnwritten, i, fmt::format("the unwritten bytes of {}", buffer.name));
  }
  for (size_t i = 0; i < plan.scratch.size(); ++i) {
    add(Memory::kScratch, i, fmt::format("parameter {}", plan.scratch[i].parameter));
  }
  add(Memory::kBeside, 0, "beside the tensors");
  add(Memory::kShared, 0, "shared memory");
  return settings;
}

unsigned char fill_byte(Contents contents) {
  return contents == Contents::kNan ? 0xFF : contents == Contents::kPattern ? 0x45 : 0;
}

std::vector<std::byte> fill_of(msda_dtype type, int64_t elements, Contents contents) {
  const auto size = static_cast<size_t>(kernels::bytes_of(type)), count = static_cast<size_t>(elements);
  std::vector<std::byte> bytes(count * size, std::byte{fill_byte(contents)});
  if (contents != Contents::kPattern) return bytes;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t mantissa = i * 0x9E3779B1 >> 16 & 127;  // the highest 7 bits, of which bfloat16 has no more
    analysis::store(bytes.data(), type, static_cast<int64_t>(i), 1 + static_cast<double>(mantissa) / 128);
  }
  return bytes;
}

}  // namespace msda::replay
