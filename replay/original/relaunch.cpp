#include "replay/original/relaunch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "recorder/capture/digest.h"
#include "recorder/device/cubin.h"
#include "recorder/tensors/tensor.h"
#include "recorder/text/numbers.h"
#include "replay/calls/loaded_call.h"

namespace msda::replay {
namespace {

using capture::Invocation;
using capture::TensorInfo;

uint32_t checked(int64_t number, uint32_t most, const char* what) {
  if (number < 0 || number > most) refuse_relaunch("its {} of {} cannot be", what, number);
  return static_cast<uint32_t>(number);
}

std::array<uint32_t, 3> checked(const std::array<int64_t, 3>& extent, uint32_t most, const char* what) {
  if (std::ranges::min(extent) < 1) refuse_relaunch("its {} of {} cannot be", what, extent);
  return {checked(extent[0], most, what), checked(extent[1], most, what), checked(extent[2], most, what)};
}

int64_t fact(const std::map<std::string, int64_t>& facts, const std::string& name) {
  const auto found = facts.find(name);
  return found == facts.end() ? 0 : found->second;
}

// Takes grid, block and cluster from the capture's numbers.
void take_shape(const std::array<int64_t, 3>& grid, const std::array<int64_t, 3>& block, int64_t shared_bytes,
                const std::map<std::string, int64_t>& facts, const std::string& prefix, Relaunch& plan) {
  constexpr uint32_t kMost = std::numeric_limits<int32_t>::max(), kMostThreads = 1024, kMostCluster = 64;
  plan.shape = {checked(grid, kMost, "grid"), checked(block, kMostThreads, "block"),
                checked(shared_bytes, kMost, "shared_bytes")};
  // programmatic_serialization, which lets a launch begin before the preceding work is done, is not repeated: it
  // changes no bit of the results, and here the kernel could begin before its inputs are copied.
  const char* const axes[] = {"cluster_x", "cluster_y", "cluster_z"};
  for (size_t i = 0; i < 3; ++i) plan.cluster[i] = checked(fact(facts, prefix + axes[i]), kMostCluster, "cluster");
  if (plan.cluster[0] == 0 || plan.cluster[1] == 0 || plan.cluster[2] == 0) plan.cluster = {};
  plan.cooperative = fact(facts, prefix + "cooperative") != 0;
}

void take_shape_of(const Invocation& invocation, Relaunch& plan) {
  const capture::CallFacts& facts = invocation.facts;
  take_shape(*facts.grid, *facts.block, facts.shared_bytes.value_or(0), facts.integers, "", plan);
}

void check_code(const capture::KernelImage& code) {
  if (code.image.empty()) refuse_relaunch("its machine code is not in the capture");
  // The driver trusts the sizes in an image.
  if (record::cubin_at(code.image.data(), code.image.size()).empty()) {
    refuse_relaunch("its machine code, /kernels/{}/image, is damaged: it is no complete cubin", code.digest);
  }
  if (capture::digest(code.image) != code.digest) {
    refuse_relaunch("its machine code, /kernels/{}/image, is not what was recorded: its digest differs", code.digest);
  }
}

struct NamedPointer {
  uint64_t offset;
  std::string tensor;  // "inputs/value"; empty: not known
};

// "40:4096 48:512": by the pointer's offset, the bytes behind it; what cannot be read is left out.
std::map<uint64_t, uint64_t> parse_extents(const std::string& text) {
  std::map<uint64_t, uint64_t> extents;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size()), colon = text.find(':', begin);
    if (colon < end) {
      const auto offset = text::parse_number<uint64_t>(std::string_view(text).substr(begin, colon - begin));
      const auto bytes = text::parse_number<uint64_t>(std::string_view(text).substr(colon + 1, end - colon - 1));
      if (offset && bytes) extents[*offset] = *bytes;
    }
    begin = end + 1;
  }
  return extents;
}

// "inputs/value@16 @120"
std::vector<NamedPointer> parse_pointers(const std::string& text, uint64_t bytes) {
  std::vector<NamedPointer> pointers;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size()), at = text.find('@', begin);
    NamedPointer pointer{0, ""};
    const char* const last = text.data() + end;
    if (at >= end || std::from_chars(text.data() + at + 1, last, pointer.offset).ptr != last ||
        pointer.offset > bytes || bytes - pointer.offset < sizeof(uint64_t)) {
      refuse_relaunch("its attribute pointers cannot be read: {}", text);
    }
    pointer.tensor = text.substr(begin, at - begin);
    pointers.push_back(std::move(pointer));
    begin = end + 1;
  }
  return pointers;
}

size_t index_of_parameter(const capture::Parameters& parameters, uint64_t offset) {
  size_t index = 0;
  while (index + 1 < parameters.offsets.size() && static_cast<uint64_t>(parameters.offsets[index + 1]) <= offset) {
    ++index;
  }
  return index;
}

// Returns the bytes from the first element to the last, both included.
uint64_t extent_of(const TensorInfo& info, const std::vector<int64_t>& strides) {
  const auto dense = static_cast<uint64_t>(info.bytes());
  if (strides.empty() || dense == 0) return dense;
  const auto extent = tensors::extent_of(info.shape, strides, kernels::bytes_of(info.type));
  if (!extent || std::ranges::min(strides) < 0) refuse_relaunch("{} has strides {}", info.path, strides);
  const auto bytes = static_cast<uint64_t>(extent->end);
  // A view of a few columns is accepted; sizes that nothing in the file supports are not.
  constexpr uint64_t kMostGaps = 4096, kMost = uint64_t{1} << 36;
  if (bytes / kMostGaps > dense || bytes > std::max(dense, kMost)) {
    refuse_relaunch("{} spans {} bytes for {} of its own", info.path, bytes, dense);
  }
  return bytes;
}

Buffer buffer_of(const Invocation& invocation, const std::string& path, uint64_t address) {
  const size_t slash = path.find('/');
  Buffer buffer;
  buffer.name = path.substr(slash + 1);
  buffer.is_output = path.starts_with("outputs/");
  buffer.address = address;
  buffer.before = find(buffer.is_output ? invocation.outputs_before : invocation.inputs, buffer.name);
  if (buffer.before == nullptr) {
    refuse_relaunch("{}/{} is not in the capture", buffer.is_output ? "outputs_before" : "inputs", buffer.name);
  }
  if (buffer.is_output) buffer.recorded = find(invocation.outputs, buffer.name);
  const TensorInfo& layout = buffer.recorded != nullptr ? *buffer.recorded : *buffer.before;
  if (layout.shape != buffer.before->shape || layout.type != buffer.before->type) {
    refuse_relaunch("outputs/{0} and outputs_before/{0} differ in shape or type", buffer.name);
  }
  buffer.strides = layout.strides;
  buffer.bytes = extent_of(layout, buffer.strides);
  uint64_t end = 0;
  if (buffer.bytes == 0 || address % static_cast<uint64_t>(kernels::bytes_of(layout.type)) != 0 ||
      __builtin_add_overflow(address, buffer.bytes, &end)) {
    refuse_relaunch("{} cannot have been at address {:#x}, with {} bytes", path, address, buffer.bytes);
  }
  return buffer;
}

bool lies_in(const std::vector<Buffer>& buffers, uint64_t address) {
  return std::ranges::any_of(buffers, [&](const Buffer& buffer) { return address - buffer.address < buffer.bytes; });
}

// Returns the memory behind the pointer of a parameter that no adapter describes, and that lies in no tensor, up to the
// next tensor.
Scratch scratch_at(const std::vector<Buffer>& buffers, const std::map<uint64_t, uint64_t>& extents,
                   const NamedPointer& pointer, uint64_t address, size_t parameter) {
  // A pool of a framework is one allocation of many GB, of which the kernel was given a part.
  constexpr uint64_t kMost = uint64_t{1} << 30;
  const auto extent = extents.find(pointer.offset);
  uint64_t end = 0;
  if (extent == extents.end() || extent->second == 0 ||
      __builtin_add_overflow(address, std::min(extent->second, kMost), &end)) {
    refuse_relaunch(
        "parameter {} points to memory that no adapter describes, and the capture does not say how large it is; "
        "record it again with this version",
        parameter);
  }
  for (const Buffer& buffer : buffers) {
    if (buffer.address > address) end = std::min(end, buffer.address);
  }
  return Scratch{parameter, address, end - address};
}

// Ascending; a pointer into another's memory is a part of it.
void add_scratch(Relaunch& plan, Scratch scratch) {
  // One that reaches over several others makes one of them all.
  std::erase_if(plan.scratch, [&](const Scratch& candidate) {
    const auto& [first, second] =
        std::minmax(candidate, scratch, [](const auto& a, const auto& b) { return a.address < b.address; });
    if (second.address - first.address >= first.bytes) return false;
    const uint64_t end = std::max(first.address + first.bytes, second.address + second.bytes);
    scratch = Scratch{first.parameter, first.address, end - first.address};
    return true;
  });
  plan.scratch.insert(std::ranges::upper_bound(plan.scratch, scratch.address, {}, &Scratch::address), scratch);
}

std::vector<Region> regions_of(const Relaunch& plan) {
  constexpr uint64_t kNear = 512;  // the alignment of allocations by CUDA and PyTorch
  std::vector<Region> all, regions;
  for (const Buffer& buffer : plan.buffers) all.push_back({buffer.address, buffer.address + buffer.bytes});
  for (const Scratch& scratch : plan.scratch) all.push_back({scratch.address, scratch.address + scratch.bytes});
  std::ranges::sort(all, {}, &Region::begin);
  for (const Region& region : all) {
    if (!regions.empty() && (region.begin <= regions.back().end || region.begin - regions.back().end < kNear)) {
      regions.back().end = std::max(regions.back().end, region.end);
    } else {
      regions.push_back(region);
    }
  }
  return regions;
}

// Several parameters may point to one tensor.
void add_buffer(Relaunch& plan, Buffer buffer) {
  const bool is_known = std::ranges::any_of(plan.buffers, [&](const Buffer& known) {
    return known.name == buffer.name && known.is_output == buffer.is_output && known.address == buffer.address;
  });
  if (!is_known) plan.buffers.push_back(std::move(buffer));
}

void take_unwritten(const Invocation& invocation, Relaunch& plan) {
  const auto text = invocation.facts.texts.find("unwritten");
  if (text == invocation.facts.texts.end()) return;
  for (auto& [tensor, series] : parse_unwritten(text->second)) {
    const auto buffer = std::ranges::find_if(plan.buffers, [&](const Buffer& known) {
      return (known.is_output ? "outputs/" : "inputs/") + known.name == tensor;
    });
    if (buffer == plan.buffers.end() || !lie_within(series, static_cast<uint64_t>(buffer->before->bytes()))) {
      refuse_relaunch("its attribute unwritten names bytes of {}, which the capture does not have", tensor);
    }
    buffer->unwritten = std::move(series);
  }
}

void take_parameters(const Invocation& invocation, UnknownMemory unknown_memory, Relaunch& plan) {
  plan.parameters = invocation.parameters;
  const auto& [bytes, offsets, sizes] = plan.parameters;
  bool whole = offsets.size() == sizes.size() && !offsets.empty();
  for (size_t i = 0; whole && i < offsets.size(); ++i) {
    int64_t end = 0;
    whole = offsets[i] >= 0 && sizes[i] > 0 && !__builtin_add_overflow(offsets[i], sizes[i], &end) &&
            end <= static_cast<int64_t>(bytes.size());
  }
  if (!whole) refuse_relaunch("its parameters lie beyond their bytes");
  const auto pointers = invocation.facts.texts.find("pointers");
  if (pointers == invocation.facts.texts.end()) {
    refuse_relaunch("the capture does not say where its parameters have pointers; record it again with this version");
  }
  std::vector<std::pair<NamedPointer, uint64_t>> unknown;
  for (const NamedPointer& pointer : parse_pointers(pointers->second, bytes.size())) {
    uint64_t address = 0;
    std::memcpy(&address, bytes.data() + pointer.offset, sizeof address);
    if (address == 0) continue;
    plan.pointers.push_back(pointer.offset);
    if (!pointer.tensor.empty()) {
      add_buffer(plan, buffer_of(invocation, pointer.tensor, address));
    } else {
      unknown.emplace_back(pointer, address);
    }
  }
  const auto extents = invocation.facts.texts.find("unknown_extents");
  const auto known_extents =
      extents == invocation.facts.texts.end() ? std::map<uint64_t, uint64_t>() : parse_extents(extents->second);
  for (const auto& [pointer, address] : unknown) {
    const size_t parameter = index_of_parameter(plan.parameters, pointer.offset);
    if (lies_in(plan.buffers, address)) continue;
    if (unknown_memory == UnknownMemory::kRefuse) {
      refuse_relaunch("parameter {} points to memory that no adapter describes; --poison takes it for scratch memory",
                      parameter);
    }
    add_scratch(plan, scratch_at(plan.buffers, known_extents, pointer, address, parameter));
  }
  std::ranges::sort(plan.pointers);
  plan.pointers.erase(std::ranges::unique(plan.pointers).begin(), plan.pointers.end());
  for (const auto& [section, tensors] : {std::pair{"outputs", &invocation.outputs}, {"inputs", &invocation.inputs}}) {
    for (const TensorInfo& info : *tensors) {
      const bool is_output = tensors == &invocation.outputs;
      const bool known = std::ranges::any_of(plan.buffers, [&](const Buffer& buffer) {
        return buffer.is_output == is_output && buffer.name == info.name;
      });
      if (!known) refuse_relaunch("no parameter points to {}/{}", section, info.name);
    }
  }
  if (std::ranges::none_of(plan.buffers, &Buffer::is_output)) refuse_relaunch("none of its outputs is recorded");
  take_unwritten(invocation, plan);
  plan.regions = regions_of(plan);
}

bool same_problem(const Invocation& a, const Invocation& b) {
  return std::ranges::equal(a.inputs, b.inputs, [](const TensorInfo& x, const TensorInfo& y) {
    return x.name == y.name && x.shape == y.shape && x.type == y.type;
  });
}

// Returns the built-in adapter for the kernel; null if a user's adapter decoded the launch.
const adapters::Adapter* adapter_of(const Invocation& invocation) {
  if (invocation.facts.texts.contains("adapter")) return nullptr;
  for (const auto& adapter : adapters::built_in()) {
    if (adapter->matches(invocation.facts.kernel)) return adapter.get();
  }
  return nullptr;
}

}  // namespace

bool is_launch(const Invocation& invocation) {
  return invocation.facts.grid.has_value() && invocation.facts.block.has_value();
}

Relaunch plan_relaunch(const Invocation& invocation, const std::vector<capture::KernelImage>& kernels,
                       UnknownMemory unknown) {
  if (!is_launch(invocation)) refuse_relaunch("it is no launch of a kernel");
  if (invocation.inputs.empty() && invocation.outputs.empty() && !invocation.digests.empty())
    refuse_relaunch("only digests were recorded (--digest-only)");
  const capture::CallFacts& facts = invocation.facts;
  if (invocation.parameters.bytes.empty()) refuse_relaunch("its parameters are not in the capture");
  auto code = capture::code_of(facts, kernels);
  if (!code) refuse_relaunch("its machine code is not in the capture");
  check_code(*code);
  Relaunch plan;
  plan.kernel = facts.kernel;
  plan.code = *std::move(code);
  take_shape_of(invocation, plan);
  take_parameters(invocation, unknown, plan);
  return plan;
}

void change_block(Relaunch& plan, const Invocation& invocation, const capture::IsolatedReader& reader,
                  uint32_t threads) {
  const adapters::Adapter* const adapter = adapter_of(invocation);
  if (adapter == nullptr)
    refuse_relaunch("--block {}: how the grid of {} follows from its block is not known", threads, plan.kernel);
  adapters::Launch launch{plan.kernel, {}, plan.parameters.bytes, plan.shape.grid, plan.shape.block, MSDA_FLOAT32};
  for (size_t i = 0; i < plan.parameters.offsets.size(); ++i) {
    launch.parameters.push_back(
        {static_cast<uint64_t>(plan.parameters.offsets[i]), static_cast<uint64_t>(plan.parameters.sizes[i])});
  }
  const auto read = [&](uint64_t address, void* to, size_t bytes) {
    for (const Buffer& buffer : plan.buffers) {
      if (buffer.is_output || !buffer.strides.empty() || address < buffer.address) continue;
      const uint64_t at = address - buffer.address;
      if (at > buffer.bytes || bytes > buffer.bytes - at) continue;
      std::memcpy(to, reader.read(*buffer.before).data.get() + at, bytes);
      return true;
    }
    return false;
  };
  const auto decoded = adapter->decode(launch, read);
  if (const auto* refusal = std::get_if<adapters::Refusal>(&decoded))
    refuse_relaunch("--block {}: {}", threads, refusal->reason);
  const auto shape = adapter->with_block(launch, threads);
  if (const auto* refusal = std::get_if<adapters::Refusal>(&shape))
    refuse_relaunch("--block {}: {}", threads, refusal->reason);
  const auto old = std::exchange(plan.shape, std::get<adapters::LaunchShape>(shape));
  plan.changed +=
      fmt::format("{}block {} -> {}, grid {} -> {}", plan.changed.empty() ? "" : "; ", fmt::join(old.block, ","),
                  fmt::join(plan.shape.block, ","), fmt::join(old.grid, ","), fmt::join(plan.shape.grid, ","));
}

void change_code(Relaunch& plan, const Invocation& invocation, const capture::IsolatedReader& reader,
                 const std::vector<capture::KernelImage>& kernels, std::string_view digest) {
  std::vector<const capture::KernelImage*> variants, meant;
  for (const auto& code : kernels) {
    if (code.name != plan.kernel) continue;
    variants.push_back(&code);
    const std::string_view whole = code.digest;
    if (whole.starts_with(digest) || whole.substr(whole.find(':') + 1).starts_with(digest)) meant.push_back(&code);
  }
  if (meant.size() != 1) {
    std::vector<std::string> known;
    for (const auto* code : variants) known.push_back(code->digest);
    refuse_relaunch("--kernel-digest {}: {} of this kernel; the capture has {}", digest,
                    meant.empty() ? "no such variant" : "several variants", fmt::join(known, ", "));
  }
  const capture::KernelImage& code = *meant.front();
  check_code(code);
  const adapters::LaunchShape old = plan.shape;
  std::optional<Invocation> twin;
  for (const int64_t id : reader.invocation_ids()) {
    Invocation recorded = reader.invocation(id);
    const bool same_code = recorded.facts.kernel_digest == code.digest && recorded.facts.kernel == plan.kernel;
    if (same_code && is_launch(recorded) && same_problem(recorded, invocation)) {
      twin = std::move(recorded);
      break;
    }
  }
  if (twin) {
    take_shape_of(*twin, plan);
  } else {
    const auto triple = [&](const std::string& name) {
      return std::array{fact(code.facts, name + "_x"), fact(code.facts, name + "_y"), fact(code.facts, name + "_z")};
    };
    const auto grid = triple("launch_grid");
    if (grid[0] == 0) {
      refuse_relaunch("--kernel-digest {}: the capture does not say how it was launched; record it again", digest);
    }
    // A grid that follows from the sizes alone is right for every variant; any other grid must be the same.
    const adapters::Adapter* const adapter = adapter_of(invocation);
    const bool implied_by_sizes = adapter != nullptr && adapter->grid_follows_from_sizes();
    if (!implied_by_sizes && grid != *invocation.facts.grid) {
      refuse_relaunch("--kernel-digest {}: it was launched for another problem, with a grid of {} and not {}", digest,
                      fmt::join(grid, ","), fmt::join(*invocation.facts.grid, ","));
    }
    take_shape(*invocation.facts.grid, triple("launch_block"), fact(code.facts, "launch_shared_bytes"), code.facts,
               "launch_", plan);
  }
  plan.changed += fmt::format("{}code {} -> {}, block {} -> {}, grid {} -> {}, shared bytes {} -> {}",
                              plan.changed.empty() ? "" : "; ", plan.code.digest, code.digest,
                              fmt::join(old.block, ","), fmt::join(plan.shape.block, ","), fmt::join(old.grid, ","),
                              fmt::join(plan.shape.grid, ","), old.shared_bytes, plan.shape.shared_bytes);
  plan.code = code;
}

}  // namespace msda::replay
