#include "recorder/preload/survey/graph_steps.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <unordered_map>
#include <utility>

#include "recorder/preload/launch/functions.h"
#include "recorder/preload/launch/launch_facts.h"

namespace msda::record {
namespace {

struct Edges {
  std::vector<cuda::GraphNode> from, to;
};

// Edges may have data about overlap, which only the later function returns.
std::optional<Edges> edges_of(cuda::Graph graph) {
  const cuda::Driver& driver = cuda::driver();
  if (driver.graph_edges == nullptr && driver.graph_plain_edges == nullptr) return std::nullopt;
  std::vector<uint64_t> data;
  const auto get = [&](cuda::GraphNode* from, cuda::GraphNode* to, size_t& count) {
    data.resize(count);
    return driver.graph_edges != nullptr
               ? driver.graph_edges(graph, from, to, from != nullptr ? data.data() : nullptr, &count)
               : driver.graph_plain_edges(graph, from, to, &count);
  };
  size_t count = 0;
  if (get(nullptr, nullptr, count) != cuda::kSuccess) return std::nullopt;
  Edges edges{std::vector<cuda::GraphNode>(count), std::vector<cuda::GraphNode>(count)};
  if (count > 0 && get(edges.from.data(), edges.to.data(), count) != cuda::kSuccess) return std::nullopt;
  return edges;
}

// Returns the nodes so that each follows those that it depends on, and otherwise in the order in which they were made.
std::optional<std::vector<cuda::GraphNode>> nodes_in_order(cuda::Graph graph) {
  const cuda::Driver& driver = cuda::driver();
  size_t count = 0;
  if (driver.graph_nodes == nullptr || driver.graph_nodes(graph, nullptr, &count) != cuda::kSuccess)
    return std::nullopt;
  std::vector<cuda::GraphNode> nodes(count);
  if (count > 0 && driver.graph_nodes(graph, nodes.data(), &count) != cuda::kSuccess) return std::nullopt;
  const auto edges = edges_of(graph);
  if (!edges) return std::nullopt;

  std::unordered_map<cuda::GraphNode, size_t> places;
  for (size_t i = 0; i < nodes.size(); ++i) places[nodes[i]] = i;
  std::vector<std::vector<size_t>> followers(nodes.size());
  std::vector<size_t> missing(nodes.size());  // of those that it depends on
  for (size_t i = 0; i < edges->from.size(); ++i) {
    const auto from = places.find(edges->from[i]), to = places.find(edges->to[i]);
    if (from == places.end() || to == places.end()) return std::nullopt;
    followers[from->second].push_back(to->second);
    ++missing[to->second];
  }
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (missing[i] == 0) ready.push(i);
  }
  std::vector<cuda::GraphNode> ordered;
  for (; !ready.empty();) {
    const size_t next = ready.top();
    ready.pop();
    ordered.push_back(nodes[next]);
    for (const size_t follower : followers[next]) {
      if (--missing[follower] == 0) ready.push(follower);
    }
  }
  return ordered.size() == nodes.size() ? std::optional(std::move(ordered)) : std::nullopt;
}

// Returns 0 if the node has none, or the driver does not report it.
cuda::LaunchAttribute attribute_of_node(cuda::GraphNode node, int id) {
  cuda::LaunchAttribute attribute{id, {}, {}};
  const auto get = cuda::driver().kernel_node_attribute;
  if (get == nullptr || get(node, id, &attribute.numbers) != cuda::kSuccess) return {id, {}, {}};
  return attribute;
}

std::optional<KernelStep> read_kernel(cuda::GraphNode node) {
  constexpr int kThatCompute[] = {2, 4}, kDeviceUpdatable = 13;  // CU_LAUNCH_ATTRIBUTE_COOPERATIVE, _CLUSTER_DIMENSION
  cuda::KernelNodeParameters parameters{};
  const cuda::Driver& driver = cuda::driver();
  const auto get = driver.kernel_node != nullptr ? driver.kernel_node : driver.kernel_node_first;
  // What a kernel on the device may change is not known.
  if (get == nullptr || get(node, &parameters) != cuda::kSuccess ||
      attribute_of_node(node, kDeviceUpdatable).numbers[0] != 0) {
    return std::nullopt;
  }
  auto step = kernel_step(parameters);
  for (const int id : kThatCompute) {
    const cuda::LaunchAttribute attribute = attribute_of_node(node, id);
    if (step && attribute.numbers[0] != 0) step->attributes.push_back(attribute);
  }
  return step;
}

// Adds what the node does. Returns false if the driver does not report it.
bool add_node(cuda::GraphNode node, GraphSteps& steps) {
  const cuda::Driver& driver = cuda::driver();
  auto type = cuda::NodeType::kHost;
  if (driver.node_type == nullptr || driver.node_type(node, &type) != cuda::kSuccess) return false;
  if (type == cuda::NodeType::kKernel) {
    auto kernel = read_kernel(node);
    if (kernel) steps.all.push_back({node, true, std::move(*kernel)});
    return kernel.has_value();
  }
  if (type == cuda::NodeType::kCopy) {
    CopyStep copy{};
    const bool is_known =
        driver.copy_node != nullptr && driver.copy_node(node, &copy) == cuda::kSuccess && is_plain(copy);
    if (is_known) steps.all.push_back({node, true, copy});
    return is_known;
  }
  if (type == cuda::NodeType::kSet) {
    SetStep set{};
    const bool is_known = driver.set_node != nullptr && driver.set_node(node, &set) == cuda::kSuccess;
    if (is_known) steps.all.push_back({node, true, set});
    return is_known;
  }
  if (type == cuda::NodeType::kGraph) {
    cuda::Graph graph = nullptr;
    if (driver.child_node == nullptr || driver.child_node(node, &graph) != cuda::kSuccess) return false;
    const auto inner = read_steps(graph);
    if (!inner) return false;
    steps.all.insert(steps.all.end(), inner->all.begin(), inner->all.end());
    return inner->is_whole;
  }
  return type == cuda::NodeType::kEmpty;
}

}  // namespace

std::optional<GraphSteps> read_steps(cuda::Graph graph) {
  const auto nodes = nodes_in_order(graph);
  if (!nodes) return std::nullopt;
  GraphSteps steps;
  for (const cuda::GraphNode node : *nodes) steps.is_whole = add_node(node, steps) && steps.is_whole;
  return steps;
}

KernelStep step_of(const Launched& launched, const Layout& layout) {
  KernelStep step{launched.function,
                  nullptr,
                  launched.grid,
                  launched.block,
                  launched.shared_bytes,
                  {launched.attributes.begin(), launched.attributes.end()},
                  {},
                  {}};
  if (auto bytes = parameter_bytes(launched, layout)) step.bytes = std::move(*bytes);
  for (const auto& parameter : layout.parameters) step.offsets.push_back(parameter.offset);
  return step;
}

std::optional<KernelStep> kernel_step(const cuda::KernelNodeParameters& parameters) {
  // Takes the function as the program launched it: the driver gives a CUkernel's function as well.
  const cuda::Function function = parameters.kernel != nullptr ? parameters.kernel : parameters.function;
  bool is_kernel = false;
  if (function == nullptr || *name_of_function(function, is_kernel) == '\0') return std::nullopt;
  const auto &grid = parameters.grid, &block = parameters.block;
  const Launched launched{function,
                          {grid[0], grid[1], grid[2]},
                          {block[0], block[1], block[2]},
                          parameters.shared_bytes,
                          nullptr,
                          parameters.parameters,
                          parameters.extra};
  KernelStep step = step_of(launched, {"", parameters_of(function, is_kernel)});
  step.context = parameters.context;
  return step;
}

bool is_plain(const CopyStep& copy) {
  return std::ranges::none_of(std::array{&copy.from, &copy.to},
                              [](const auto* side) { return side->type == cuda::MemoryType::kArray; });
}

DeviceRange range_of(const cuda::CopyOfBox::Side& side, const CopyStep& copy) {
  if (copy.width == 0 || copy.height == 0 || copy.depth == 0) return {};
  const uint64_t base =
      side.type == cuda::MemoryType::kHost ? reinterpret_cast<uintptr_t>(side.host) : uint64_t{side.device};
  const auto offset = [&](uint64_t x, uint64_t y, uint64_t z) { return (z * side.height + y) * side.pitch + x; };
  const uint64_t first = offset(side.x, side.y, side.z);
  const uint64_t last = offset(side.x + copy.width - 1, side.y + copy.height - 1, side.z + copy.depth - 1);
  return {base + first, last - first + 1};
}

DeviceRange range_of(const SetStep& set) {
  if (set.width == 0 || set.height == 0) return {};
  return {set.to, (set.height - 1) * set.pitch + set.width * set.element_bytes};
}

bool perform(const CopyStep& copy, cuda::Stream stream) {
  if (copy.width == 0 || copy.height == 0 || copy.depth == 0) return true;
  if (copy.height == 1 && copy.depth == 1) {  // rows must not be as long as other memory
    const DeviceRange from = range_of(copy.from, copy), to = range_of(copy.to, copy);
    const auto do_with = [&](auto* function, auto source) {
      return function != nullptr && function(to.address, source, to.bytes, stream) == cuda::kSuccess;
    };
    if (copy.from.type != cuda::MemoryType::kHost) return do_with(cuda::driver().copy_anywhere, from.address);
    return do_with(cuda::driver().copy_to_device, reinterpret_cast<const void*>(from.address));
  }
  const auto copy_box = cuda::driver().copy_box;
  return copy_box != nullptr && copy_box(&copy, stream) == cuda::kSuccess;
}

bool perform(const SetStep& set, cuda::Stream stream) {
  if (set.width == 0 || set.height == 0) return true;
  const cuda::Driver& driver = cuda::driver();
  const auto call = [&](auto* in_line, auto* in_rows, auto value) {
    if (set.height == 1) return in_line != nullptr && in_line(set.to, value, set.width, stream) == cuda::kSuccess;
    return in_rows != nullptr && in_rows(set.to, set.pitch, value, set.width, set.height, stream) == cuda::kSuccess;
  };
  switch (set.element_bytes) {
    case 1:
      return call(driver.set_bytes, driver.set_rows, static_cast<unsigned char>(set.value));
    case 2:
      return call(driver.set_halves, driver.set_rows_of_halves, static_cast<unsigned short>(set.value));
    case 4:
      return call(driver.set_words, driver.set_rows_of_words, set.value);
    default:
      return false;
  }
}

LaunchOfStep::LaunchOfStep(const KernelStep& step, cuda::Stream stream) {
  // The driver reads them, and changes nothing.
  for (const size_t offset : step.offsets) pointers_.push_back(const_cast<std::byte*>(step.bytes.data()) + offset);
  launched_ = {step.function, step.grid,        step.block, step.shared_bytes,
               stream,        pointers_.data(), nullptr,    step.attributes};
}

}  // namespace msda::record
