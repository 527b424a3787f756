#include "recorder/preload/launch/launch_facts.h"

#include <cstring>
#include <utility>

#include "kernels/names.h"

namespace msda::record {
namespace {

// Attributes of a launch that change how it runs (CUlaunchAttributeID in cuda.h).
constexpr int kCooperative = 2, kClusterDimension = 4, kProgrammaticSerialization = 6;

void add_attributes(std::span<const cuda::LaunchAttribute> attributes, CallFacts& facts) {
  for (const auto& attribute : attributes) {
    switch (attribute.id) {
      case kCooperative:
        facts.integers["cooperative"] = attribute.numbers[0];
        break;
      case kClusterDimension:
        facts.integers["cluster_x"] = attribute.numbers[0];
        facts.integers["cluster_y"] = attribute.numbers[1];
        facts.integers["cluster_z"] = attribute.numbers[2];
        break;
      case kProgrammaticSerialization:
        facts.integers["programmatic_serialization"] = attribute.numbers[0];
        break;
      default:
        break;
    }
  }
}

// Returns, for example, "40:4096": the pointer at byte 40 of the parameters is one that the adapter does not know, and
// 4096 bytes of its allocation follow.
std::string extents_of_unknown(const adapters::Launch& launch, const adapters::Call& call) {
  const cuda::Driver& driver = cuda::driver();
  std::string extents;
  for (const auto& [offset, tensor] : call.pointers) {
    cuda::DevicePointer pointer = 0, base = 0;
    size_t bytes = 0;
    if (!tensor.empty() || offset > launch.bytes.size() || launch.bytes.size() - offset < sizeof pointer) continue;
    std::memcpy(&pointer, launch.bytes.data() + offset, sizeof pointer);
    if (pointer == 0 || driver.address_range == nullptr ||
        driver.address_range(&base, &bytes, pointer) != cuda::kSuccess || pointer - base >= bytes) {
      continue;
    }
    extents += (extents.empty() ? "" : " ") + std::to_string(offset) + ":" + std::to_string(bytes - (pointer - base));
  }
  return extents;
}

}  // namespace

size_t bytes_of(const Layout& layout) {
  return layout.parameters.empty() ? 0 : layout.parameters.back().offset + layout.parameters.back().size;
}

[[gnu::hot]] bool read_parameters(const Launched& launched, const Layout& layout, std::span<std::byte> bytes) {
  if (layout.parameters.empty()) return false;
  if (launched.parameters != nullptr) {
    for (size_t i = 0; i < layout.parameters.size(); ++i) {
      std::memcpy(bytes.data() + layout.parameters[i].offset, launched.parameters[i], layout.parameters[i].size);
    }
    return true;
  }
  const void* packed = nullptr;
  size_t size = 0;
  for (void** option = launched.extra; option != nullptr; option += 2) {
    const auto which = reinterpret_cast<uintptr_t>(option[0]);
    if (which == cuda::kParamEnd) break;
    if (which == cuda::kParamBufferPointer) packed = option[1];
    if (which == cuda::kParamBufferSize) size = *static_cast<const size_t*>(option[1]);
  }
  if (packed == nullptr || size < bytes.size()) return false;
  for (const adapters::Parameter& parameter : layout.parameters) {  // the program may leave anything between them
    std::memcpy(bytes.data() + parameter.offset, static_cast<const std::byte*>(packed) + parameter.offset,
                parameter.size);
  }
  return true;
}

std::vector<adapters::Parameter> parameters_of(cuda::Function function, bool is_kernel) {
  const cuda::Driver& driver = cuda::driver();
  constexpr size_t kMost = 256;
  std::vector<adapters::Parameter> parameters;
  for (size_t i = 0; i < kMost; ++i) {
    size_t offset = 0, size = 0;
    const cuda::Result result = is_kernel ? driver.kernel_parameter(function, i, &offset, &size)
                                          : driver.function_parameter(function, i, &offset, &size);
    if (result != cuda::kSuccess) break;
    parameters.push_back({offset, size});
  }
  return parameters;
}

[[gnu::hot]] bool identify(const Launched& launched, const Layout& layout, std::string& key) {
  constexpr size_t kHandles = sizeof launched.function + sizeof launched.stream;
  constexpr size_t kExtents = sizeof launched.grid + sizeof launched.block;
  key.assign(kHandles + kExtents + bytes_of(layout) + layout.kernel.size(), '\0');  // there are gaps between parameters
  char* to = key.data();
  const auto add = [&to](const void* data, size_t bytes) {
    to = static_cast<char*>(std::memcpy(to, data, bytes)) + bytes;
  };
  add(&launched.function, sizeof launched.function);
  add(&launched.stream, sizeof launched.stream);
  add(launched.grid.data(), sizeof launched.grid);
  add(launched.block.data(), sizeof launched.block);
  add(layout.kernel.data(), layout.kernel.size());
  return read_parameters(launched, layout, std::as_writable_bytes(std::span(to, bytes_of(layout))));
}

std::optional<std::vector<std::byte>> parameter_bytes(const Launched& launched, const Layout& layout) {
  std::vector<std::byte> bytes(bytes_of(layout));
  if (!read_parameters(launched, layout, bytes)) return std::nullopt;
  return bytes;
}

adapters::Launch launch_of(const Launched& launched, const Layout& layout) {
  adapters::Launch launch;
  launch.kernel = layout.kernel;
  launch.parameters = layout.parameters;
  launch.bytes.resize(bytes_of(layout));
  launch.grid = launched.grid;
  launch.block = launched.block;
  read_parameters(launched, layout, launch.bytes);
  return launch;
}

CallFacts facts_of(const Launched& launched, const adapters::Launch& launch, const adapters::Call& call) {
  CallFacts facts{call.facts, {}, {}};
  facts.texts["kernel"] = launch.kernel;
  std::string& pointers = facts.texts["pointers"];
  for (const auto& [offset, tensor] : call.pointers) {
    pointers += (pointers.empty() ? "" : " ") + tensor + "@" + std::to_string(offset);
  }
  if (std::string extents = extents_of_unknown(launch, call); !extents.empty()) {
    facts.texts["unknown_extents"] = std::move(extents);
  }
  if (call.dialect) facts.texts["dialect"] = kernels::name_of(*call.dialect);
  if (call.padding) facts.texts["padding_mode"] = kernels::name_of(*call.padding);
  if (call.align_corners) facts.integers["align_corners"] = *call.align_corners;
  if (call.dialect && (!call.padding || !call.align_corners)) facts.integers["unconfirmed"] = 1;
  facts.integers["shared_bytes"] = launched.shared_bytes;
  facts.integers["stream"] = static_cast<int64_t>(reinterpret_cast<uintptr_t>(launched.stream));
  int device = 0;
  if (cuda::driver().current_device(&device) == cuda::kSuccess) facts.integers["device"] = device;
  add_attributes(launched.attributes, facts);
  facts.grid.assign(launched.grid.begin(), launched.grid.end());
  facts.block.assign(launched.block.begin(), launched.block.end());
  return facts;
}

void add_launch(const Launched& launched, CodeFacts& code) {
  CallFacts attributes;
  add_attributes(launched.attributes, attributes);
  for (const auto& [name, value] : attributes.integers) code.integers["launch_" + name] = value;
  constexpr const char* kAxes[] = {"x", "y", "z"};
  for (size_t i = 0; i < 3; ++i) {
    code.integers[std::string("launch_grid_") + kAxes[i]] = launched.grid[i];
    code.integers[std::string("launch_block_") + kAxes[i]] = launched.block[i];
  }
  code.integers["launch_shared_bytes"] = launched.shared_bytes;
}

void add_parameters(const adapters::Launch& launch, LaunchRecord& record) {
  record.parameter_bytes = launch.bytes;
  for (const auto& parameter : launch.parameters) {
    record.parameter_offsets.push_back(static_cast<int64_t>(parameter.offset));
    record.parameter_sizes.push_back(static_cast<int64_t>(parameter.size));
  }
}

}  // namespace msda::record
