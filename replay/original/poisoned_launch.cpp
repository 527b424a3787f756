#include "replay/original/poisoned_launch.h"

#include <fmt/format.h>

#include <array>

namespace msda::replay {
namespace {

using Contents = PoisonSetting::Contents;
using Memory = PoisonSetting::Memory;

}  // namespace

PoisonedLaunch::PoisonedLaunch(const gpu::Device& device, gpu::Function fill_shared, const Relaunch& plan,
                               RepeatedLaunch& repeated)
    : device_(device), fill_shared_(fill_shared), plan_(plan), repeated_(repeated) {
  constexpr int kMultiprocessors = 16, kSharedBytesOptIn = 97;  // CU_DEVICE_ATTRIBUTE_*
  constexpr int kMaxDynamicSharedBytes = 8;                     // CU_FUNC_ATTRIBUTE_*
  multiprocessors_ = device.attribute(kMultiprocessors);
  shared_bytes_ = device.attribute(kSharedBytesOptIn) / 4 * 4;
  device.check(device.driver().set_function_attribute(fill_shared, kMaxDynamicSharedBytes, shared_bytes_),
               fmt::format("reserve {} bytes of shared memory", shared_bytes_));
  repeated.build(true);
}

std::vector<RepeatedLaunch::Range> PoisonedLaunch::run(const PoisonSetting& setting, int64_t runs) {
  DeviceLaunch& on_device = repeated_.on_device();
  if (setting.memory == Memory::kOutput) fill_output(setting);
  if (setting.memory == Memory::kUnwritten) {
    on_device.fill_unwritten(plan_.buffers[setting.number], std::byte{fill_byte(setting.contents)});
  }
  if (setting.memory == Memory::kBeside) fill_gaps(setting.contents);
  auto ranges = repeated_.repeat(runs, [&] {
    if (setting.memory == Memory::kScratch) fill_scratch(setting);
    // Fills shared memory, since what the kernel before left in it may be different in each launch.
    fill_shared(setting.memory == Memory::kShared ? setting.contents : Contents::kZero);
  });
  if (setting.memory == Memory::kBeside) fill_gaps(Contents::kZero);
  if (setting.memory == Memory::kUnwritten) on_device.restore_all();
  if (setting.memory == Memory::kOutput) {
    const DeviceLaunch::Output& output = on_device.outputs()[setting.number];
    on_device.restore(output);
  }
  return ranges;
}

void PoisonedLaunch::fill_output(const PoisonSetting& setting) const {
  const DeviceLaunch::Output& output = repeated_.on_device().outputs()[setting.number];
  const capture::TensorInfo& info = *output.buffer->before;
  repeated_.on_device().put(*output.buffer, fill_of(info.type, info.elements(), setting.contents),
                            output.before.address());
}

void PoisonedLaunch::fill_gaps(Contents contents) const {
  for (const auto& [address, bytes] : repeated_.on_device().gaps()) {
    device_.check(device_.driver().set_bytes_now(address, fill_byte(contents), bytes), "fill memory");
  }
}

void PoisonedLaunch::fill_scratch(const PoisonSetting& setting) const {
  const Scratch& scratch = plan_.scratch[setting.number];
  device_.check(device_.driver().set_bytes_now(repeated_.on_device().place_of(scratch.address),
                                               fill_byte(setting.contents), scratch.bytes),
                "fill scratch memory");
}

void PoisonedLaunch::fill_shared(Contents contents) const {
  constexpr unsigned kThreads = 256, kBlocksEach = 4;  // blocks need not be spread evenly over the multiprocessors
  unsigned word = fill_byte(contents) * 0x01010101u, bytes = static_cast<unsigned>(shared_bytes_);
  const std::array<void*, 2> parameters{&word, &bytes};
  device_.launch(fill_shared_, kBlocksEach * static_cast<unsigned>(multiprocessors_), kThreads, parameters, bytes);
}

}  // namespace msda::replay
