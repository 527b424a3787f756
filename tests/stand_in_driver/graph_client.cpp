// usage: stand_in_graph_client WAY [WHAT...]. Does the same three times: kernels that vary and kernels that do not,
// with copies and sets of memory between them. WAY: `launches`, without a graph; `captured`, into one; `nodes`, one
// that is made of nodes, with branches and a graph inside. Prints what they leave. WHAT adds to it, or changes the
// graph (below); `threads` does it in four threads at once.
#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/stand_in_driver/client.h"
#include "tests/stand_in_driver/survey_images.h"

namespace msda::stand_in {
namespace {

constexpr int kCount = 1000, kTimes = 3;

struct Step {
  enum Kind { kKernel, kSet, kCopy, kUpload, kHost } kind = kKernel;
  CUfunction function = nullptr;
  std::vector<uint64_t> arguments = {};  // an int is the first half of one
  CUdeviceptr to = 0, from = 0;
  unsigned value = 0;
  size_t bytes = 0;

  std::vector<void*> pointers() {
    std::vector<void*> pointers;
    for (uint64_t& argument : arguments) pointers.push_back(&argument);
    return pointers;
  }
};

void count_calls(void* calls) { ++*static_cast<int*>(calls); }

class Program {
 public:
  Program(Via via, std::string_view way, std::set<std::string_view> what)
      : client_(via), api_(graph_api(via)), way_(way), what_(std::move(what)) {
    check(client_.api().cuStreamCreate(&stream_, kStreamNonBlocking));
    std::vector<float> x(250'000);  // a megabyte, of which kernels use the beginning
    for (int i = 0; i < kCount; ++i) x[static_cast<size_t>(i)] = 1.0f / static_cast<float>(i + 1);
    values_ = client_.upload(x);
    sums_ = client_.upload(std::vector<float>(4));
    bytes_ = client_.upload(std::vector<int>(16));
    numbers_ = client_.upload(std::vector<int>{10, 20, 30, 40});
    results_ = client_.upload(std::vector<int>(6));
    copied_ = results_ + 2 * sizeof(int);  // behind what kernels write
    table_ = client_.upload(std::vector<CUdeviceptr>{numbers_, numbers_ + sizeof(int)});
    hidden_numbers_ = client_.upload(std::vector<int>{50});
    hidden_ = client_.upload(std::vector<CUdeviceptr>{~hidden_numbers_});
    late_numbers_ = client_.upload(std::vector<int>{70});
    late_table_ = client_.upload(std::vector<CUdeviceptr>{0});
    void* on_host = nullptr;
    check(client_.api().cuMemHostAlloc(&on_host, 4 * sizeof(int), 0));
    on_host_ = static_cast<int*>(on_host);
    std::fill_n(on_host_, 4, 0);
  }

  void prepare() {
    if (way_ == "launches") return;
    exec_ = instantiated(steps());
    if (has("destroyed")) {
      check(api_.cuGraphExecDestroy(exec_));
      exec_ = instantiated(steps(kCount / 2));
    }
    if (has("two")) other_ = instantiated({steps()[2], steps()[4]});
  }

  void run() {
    client_.enter_thread();
    for (int i = 0; i < kTimes; ++i) {
      if (way_ == "launches") {
        perform(steps());
      } else {
        launch_graphs(i);
      }
    }
    if (exec_ != nullptr) check(api_.cuGraphExecDestroy(exec_));
    client_.wait_for_all();
  }

  void print() const {
    for (const int i : {0, kCount - 1}) {
      std::printf("twice %a\n", static_cast<double>(client_.download<float>(values_, kCount)[static_cast<size_t>(i)]));
    }
    const auto sums = client_.download<float>(sums_, 4);
    for (const float sum : sums) std::printf("sum %.2f\n", static_cast<double>(sum));
    std::printf("fixed_sum %a\n", static_cast<double>(sums[1]));
    for (const auto& [name, at, count] : {std::tuple("set", bytes_, 16),
                                          {"follow_table", numbers_, 4},
                                          {"copied", copied_, 4},
                                          {"count, number", results_, 2},
                                          {"hidden", hidden_numbers_, 1},
                                          {"late", late_numbers_, 1}}) {
      std::printf("%s", name);
      for (const int number : client_.download<int>(at, static_cast<size_t>(count))) std::printf(" %d", number);
      std::printf("\n");
    }
    std::printf("%s %d, calls %d\n", has("to-host") ? "count, to host" : "on host", on_host_[0], calls_);
  }

 private:
  bool has(std::string_view what) const { return what_.contains(what); }
  void check(CUresult error) const { client_.check(error); }

  Step kernel(const std::string& name, const Code& code, std::vector<uint64_t> arguments, bool has_variable = false) {
    CUfunction& function = functions_[name];
    if (!function) function = client_.load_image(name, image_of(name, code, has_variable), "data", has("as-kernel"));
    return {Step::kKernel, function, std::move(arguments)};
  }

  // One round. Its sums are of so many numbers.
  std::vector<Step> steps(uint64_t count = kCount) {
    const auto sum = [&](const char* name, const Code& code, size_t place) {
      return kernel(name, code, {sums_ + place * sizeof(float), values_, count});
    };
    std::vector<Step> steps{{Step::kSet, nullptr, {}, sums_, 0, 0, 4 * sizeof(float)},
                            {Step::kSet, nullptr, {}, bytes_, 0, 0x01020304, 8 * sizeof(int)},
                            kernel("survey_twice", kPlain, {values_, kCount}),
                            sum("survey_drawn_sum", kFloatReduction, 0),
                            sum("survey_fixed_sum", kFloatReduction, 1),
                            sum("survey_locked_sum", kCompareAndSwap, 2),
                            sum("survey_torn_sum", kPlain, 3),
                            kernel("survey_follow_table", kPlain, {table_, 2}),
                            kernel("survey_count", kReadsAddress, {results_}, /*has_variable=*/true),
                            {Step::kCopy, nullptr, {}, copied_, numbers_, 0, 4 * sizeof(int)},
                            kernel("survey_number", kPlain, {results_ + sizeof(int)})};
    const auto host = reinterpret_cast<CUdeviceptr>(on_host_);
    if (has("host")) steps.push_back({Step::kHost});
    if (has("hidden-table")) steps.push_back(kernel("survey_follow_hidden", kPlain, {hidden_, 1}));
    if (has("count-on-host")) steps.push_back(kernel("survey_count_on_host", kPlain, {host}));
    if (has("to-host")) steps.push_back({Step::kCopy, nullptr, {}, host, results_ + sizeof(int), 0, 2 * sizeof(int)});
    if (has("back")) steps.push_back({Step::kCopy, nullptr, {}, copied_, host, 0, sizeof(int)});
    if (has("unknown-code")) {
      if (!tiny_) tiny_ = client_.load("tiny_kernel");
      steps.push_back({Step::kKernel, tiny_, {numbers_ + 3 * sizeof(int), 1}});
    }
    if (has("late-table")) {  // the pointer comes with a copy from the host
      steps.push_back({Step::kUpload,
                       nullptr,
                       {},
                       late_table_,
                       reinterpret_cast<uintptr_t>(&late_numbers_),
                       0,
                       sizeof late_numbers_});
      steps.push_back(kernel("survey_follow_table", kPlain, {late_table_, 1}));
    }
    return steps;
  }

  void perform(std::vector<Step> steps) {
    for (Step& step : steps) {
      switch (step.kind) {
        case Step::kKernel:
          check(client_.api().cuLaunchKernel(step.function, 4, 1, 1, 32, 1, 1, 0, stream_, step.pointers().data(),
                                             nullptr));
          break;
        case Step::kSet:
          check(api_.cuMemsetD32Async(step.to, step.value, step.bytes / sizeof(unsigned), stream_));
          break;
        case Step::kCopy:
          check(api_.cuMemcpyAsync(step.to, step.from, step.bytes, stream_));
          break;
        case Step::kUpload:
          check(api_.cuMemcpyHtoDAsync_v2(step.to, reinterpret_cast<const void*>(step.from), step.bytes, stream_));
          break;
        case Step::kHost:
          check(api_.cuLaunchHostFunc(stream_, count_calls, &calls_));
          break;
      }
    }
  }

  static cuda::KernelNodeParameters launch_of(const Step& step, void** pointers) {
    return {step.function, {4, 1, 1}, {32, 1, 1}, 0, pointers, nullptr, nullptr, nullptr};
  }
  static cuda::SetNodeParameters set_of(const Step& step) {
    const size_t pitch = step.bytes / 2;  // two rows
    return {step.to, pitch, step.value, sizeof(int), pitch / sizeof(int), 2};
  }
  static cuda::CopyOfBox copy_of(const Step& step) {
    cuda::CopyOfBox copy{};
    copy.from.type = copy.to.type = cuda::MemoryType::kUnified;
    copy.from.device = step.from;
    copy.to.device = step.to;
    copy.from.pitch = copy.to.pitch = copy.width = step.bytes / 2;
    copy.height = 2;
    copy.depth = 1;
    return copy;
  }

  CUgraphNode add(CUgraph graph, Step& step, const std::vector<CUgraphNode>& after) {
    CUgraphNode node = nullptr;
    if (step.kind == Step::kKernel) {
      auto pointers = step.pointers();
      const auto launch = launch_of(step, pointers.data());
      check(api_.cuGraphAddKernelNode_v2(&node, graph, after.data(), after.size(), &launch));
    } else if (step.kind == Step::kSet) {
      const auto set = set_of(step);
      check(api_.cuGraphAddMemsetNode(&node, graph, after.data(), after.size(), &set, nullptr));
    } else if (step.kind == Step::kCopy) {
      const auto copy = copy_of(step);
      check(api_.cuGraphAddMemcpyNode(&node, graph, after.data(), after.size(), &copy, nullptr));
    } else {
      const CUDA_HOST_NODE_PARAMS host{count_calls, &calls_};
      check(api_.cuGraphAddHostNode(&node, graph, after.data(), after.size(), &host));
    }
    return node;
  }

  // The sums side by side, what follows them in a graph inside, and the rest behind an empty node.
  CUgraph graph_of_nodes(std::vector<Step> steps) {
    CUgraph graph = nullptr;
    check(api_.cuGraphCreate(&graph, 0));
    check(api_.cuGraphCreate(&inner_, 0));
    std::vector<CUgraphNode> last;
    nodes_.clear();
    for (size_t i = 0; i < 3; ++i) nodes_.push_back(add(graph, steps[i], last)), last = {nodes_.back()};
    std::vector<CUgraphNode> sums;
    for (size_t i = 3; i < 7; ++i) nodes_.push_back(add(graph, steps[i], last)), sums.push_back(nodes_.back());
    std::vector<CUgraphNode> inner;
    for (size_t i = 7; i < 9; ++i) nodes_.push_back(add(inner_, steps[i], inner)), inner = {nodes_.back()};
    CUgraphNode join = nullptr;
    check(api_.cuGraphAddChildGraphNode(&child_, graph, last.data(), last.size(), inner_));
    sums.push_back(child_);
    check(api_.cuGraphAddEmptyNode(&join, graph, sums.data(), sums.size()));
    last = {join};
    for (size_t i = 9; i < steps.size(); ++i) nodes_.push_back(add(graph, steps[i], last)), last = {nodes_.back()};
    return graph;
  }

  CUgraph graph_of(const std::vector<Step>& steps) {
    if (way_ == "nodes") return graph_of_nodes(steps);
    constexpr auto kMode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    CUgraph graph = nullptr;
    check(api_.cuStreamBeginCapture_v2(stream_, kMode));
    perform(steps);
    check(api_.cuStreamEndCapture(stream_, &graph));
    return graph;
  }

  CUgraphExec instantiated(const std::vector<Step>& steps) {
    const CUgraph graph = graph_of(steps);
    CUgraphExec exec = nullptr;
    auto* instantiate = api_.cuGraphInstantiateWithFlags;
    if (has("unknown-graph")) {
      void* const library = dlopen("libcuda.so.1", RTLD_NOW);
      instantiate = reinterpret_cast<decltype(instantiate)>(dlsym(library, "stand_in_hidden_instantiate"));
    }
    check(instantiate(&exec, graph, 0));
    if (way_ != "nodes") check(api_.cuGraphDestroy(graph));
    return exec;
  }

  void launch_graphs(int time) {
    if (time == 1) change(exec_);
    if (has("per-thread")) {
      check(api_.cuGraphLaunch_ptsz(exec_, nullptr));
    } else {
      check(api_.cuGraphLaunch(exec_, stream_));
    }
    if (other_ != nullptr) check(api_.cuGraphLaunch(other_, stream_));
  }

  // Between its first launch and its second.
  void change(CUgraphExec exec) {
    auto half = steps(kCount / 2);
    CUgraphExecUpdateResultInfo outcome{};
    if (has("disable")) check(api_.cuGraphNodeSetEnabled(exec, nodes_[2], 0));
    if (has("update")) {
      const CUgraph graph = graph_of(half);
      check(api_.cuGraphExecUpdate_v2(exec, graph, &outcome));
      if (way_ != "nodes") check(api_.cuGraphDestroy(graph));
    }
    if (has("failing-update")) {
      const CUgraph graph = graph_of({half[0]});
      if (api_.cuGraphExecUpdate_v2(exec, graph, &outcome) == 0) throw std::runtime_error("the graphs are alike");
    }
    if (has("set-kernel")) {
      auto pointers = half[3].pointers();
      const auto launch = launch_of(half[3], pointers.data());
      check(api_.cuGraphExecKernelNodeSetParams_v2(exec, nodes_[3], &launch));
    }
    if (has("set-set")) {
      half[0].value = std::bit_cast<unsigned>(1.0f);
      const auto set = set_of(half[0]);
      check(api_.cuGraphExecMemsetNodeSetParams(exec, nodes_[0], &set, nullptr));
    }
    if (has("set-copy")) {
      half[9].from = values_;
      const auto rows = copy_of(half[9]);
      check(api_.cuGraphExecMemcpyNodeSetParams(exec, nodes_[9], &rows, nullptr));
    }
    if (has("set-child")) check(api_.cuGraphExecChildGraphNodeSetParams(exec, child_, inner_));
  }

  Client client_;
  GraphApi api_;
  std::string_view way_;
  std::set<std::string_view> what_;
  CUstream stream_ = nullptr;
  std::map<std::string, CUfunction> functions_;
  CUfunction tiny_ = nullptr;
  CUdeviceptr values_ = 0, sums_ = 0, bytes_ = 0, numbers_ = 0, copied_ = 0, results_ = 0, table_ = 0;
  CUdeviceptr hidden_ = 0, hidden_numbers_ = 0, late_table_ = 0, late_numbers_ = 0;
  int* on_host_ = nullptr;
  int calls_ = 0;
  std::vector<CUgraphNode> nodes_;
  CUgraphNode child_ = nullptr;
  CUgraph inner_ = nullptr;
  CUgraphExec exec_ = nullptr, other_ = nullptr;
};

}  // namespace
}  // namespace msda::stand_in

int main(int argc, char** argv) {
  using namespace msda::stand_in;
  try {
    const std::set<std::string_view> what(argv + 2, argv + argc);
    const Via via = what.contains("by-dlsym") ? Via::kDlsym : Via::kProcAddress;
    std::vector<std::unique_ptr<Program>> programs;
    for (int i = 0; i < (what.contains("threads") ? 4 : 1); ++i) {
      programs.push_back(std::make_unique<Program>(via, argc > 1 ? argv[1] : "launches", what));
      programs.back()->prepare();
    }
    {
      std::vector<std::jthread> threads;
      for (const auto& program : programs) threads.emplace_back([&program] { program->run(); });
    }
    for (const auto& program : programs) program->print();
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "stand_in_graph_client: %s\n", e.what());
    return 1;
  }
}
