// Launches kernels with Deformable DETR's names on seeded random problems, in the ways that programs do, and prints
// checksums of inputs and outputs: a run under a recorder must print the same as one without.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>

#include "col2im17_kernels.cuh"
#include "col2im17_problem.cuh"
#include "program.cuh"

namespace gpu {
namespace {

constexpr char kUsage[] =
    "col2im17 [--variant NAME|all] [--type float|double|half] [--launches N] [--streams S] [--threads T]\n"
    "         [--repeat R] [--seed X] [--sizes B,Q,M,P,D] [--levels HxW,...] [--save FOLDER]\n"
    "         [--ordered] [--in-flight] [--loop] [--graph] [--global-capture] [--host] [--time]\n"
    "  --ordered launches a single thread, so that grad_value has the same bits every time; --repeat launches each\n"
    "  problem so often; --in-flight waits only when everything is launched; --loop changes the contents of the same\n"
    "  addresses from launch to launch and waits at the end only; --graph launches through a CUDA graph;\n"
    "  --global-capture launches while another thread captures a graph in global mode; --host computes on the CPU;\n"
    "  --time prints the microseconds of a launch with its wait, and of copying what it reads and writes\n";

template <class T>
using Kernel = void (*)(int, const T*, const T*, const int64_t*, const int64_t*, const T*, const T*, int, int, int, int,
                        int, int, int, T*, T*, T*);

template <class T>
struct Variant {
  std::string name;
  Kernel<T> kernel;
};

template <class T>
const std::vector<Variant<T>>& variants() {
  static const std::vector<Variant<T>> all = {
      {"shm_blocksize_aware_reduce_v1", ms_deformable_col2im_gpu_kernel_shm_blocksize_aware_reduce_v1<T, 32>},
      {"shm_blocksize_aware_reduce_v2", ms_deformable_col2im_gpu_kernel_shm_blocksize_aware_reduce_v2<T, 64>},
      {"shm_reduce_v1", ms_deformable_col2im_gpu_kernel_shm_reduce_v1<T>},
      {"shm_reduce_v2", ms_deformable_col2im_gpu_kernel_shm_reduce_v2<T>},
      {"shm_reduce_v2_multi_blocks", ms_deformable_col2im_gpu_kernel_shm_reduce_v2_multi_blocks<T>},
      {"gm", ms_deformable_col2im_gpu_kernel_gm<T>}};
  return all;
}

template <class T>
class Program {
 public:
  explicit Program(const Options& options) : options_(options) {
    if (options.has("sizes")) {
      const auto list = numbers(options.text("sizes"));
      if (list.size() != 5) throw std::invalid_argument("--sizes takes five numbers");
      sizes_.B = int(list[0]), sizes_.Q = int(list[1]), sizes_.M = int(list[2]);
      sizes_.P = int(list[3]), sizes_.D = int(list[4]);
    }
    if (options.has("levels")) sizes_.levels = numbers(options.text("levels"));
    const std::string wanted = options.text("variant", "shm_blocksize_aware_reduce_v1");
    for (const auto& variant : variants<T>()) {
      if (wanted == "all" || wanted == variant.name) chosen_.push_back(variant);
    }
    if (chosen_.empty() || sizes_.levels.size() % 2 != 0) throw std::invalid_argument("no such variant, or odd levels");
  }

  void run() {
    if (options_.has("host")) return on_host();
    if (options_.has("time")) return timed();
    if (options_.has("loop")) return loop();
    if (options_.has("global-capture")) return during_global_capture();
    std::vector<std::thread> threads;
    for (int t = 0; t < options_.number("threads", 1); ++t) {
      threads.emplace_back([this, t] { guarded([&] { thread(t); }); });
    }
    for (auto& entry : threads) entry.join();
    if (!failure_.empty()) throw std::runtime_error(failure_);
    print();
  }

 private:
  void guarded(const std::function<void()>& work) {
    try {
      work();
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex_);
      failure_ = error.what();
    }
  }

  Problem<T> problem(int number) const { return {sizes_, uint64_t(options_.number("seed", 1)) * 1000 + number}; }

  void launch(const Variant<T>& variant, const Buffers<T>& buffers, cudaStream_t stream) const {
    Call<T> call = buffers.call;
    void* arguments[] = {&call.n,
                         &call.grad_output,
                         &call.value,
                         &call.spatial_shapes,
                         &call.level_start_index,
                         &call.sampling_locations,
                         &call.attention_weights,
                         &call.B,
                         &call.S,
                         &call.M,
                         &call.D,
                         &call.L,
                         &call.Q,
                         &call.P,
                         &call.grad_value,
                         &call.grad_sampling_locations,
                         &call.grad_attention_weights};
    const bool ordered = options_.has("ordered");
    const unsigned threads = ordered ? 1 : 128;
    const unsigned blocks = ordered ? 1 : unsigned((sizes_.samples() + threads - 1) / threads);
    CHECK(cudaLaunchKernel(reinterpret_cast<const void*>(variant.kernel), dim3(blocks), dim3(threads), arguments,
                           3 * threads * sizeof(T), stream));
  }

  void report(const std::string& name, const Problem<T>& problem, const Gradients<T>& gradients) {
    const std::vector<int64_t> B{sizes_.B}, value{sizes_.B, sizes_.S(), sizes_.M, sizes_.D};
    const std::vector<int64_t> rows{sizes_.B, sizes_.Q, sizes_.M, sizes_.D};
    const std::vector<int64_t> samples{sizes_.B, sizes_.Q, sizes_.M, sizes_.L(), sizes_.P};
    std::vector<int64_t> pairs = samples;
    pairs.push_back(2);
    const std::string type = sizeof(T) == 2 ? "<f2" : sizeof(T) == 4 ? "<f4" : "<f8";
    std::string lines;
    const auto describe = [&](const char* tensor, const auto& data, const std::vector<int64_t>& shape,
                              const std::string& kind) {
      const size_t bytes = data.size() * sizeof data[0];
      char line[200];
      std::snprintf(line, sizeof line, "%s %s %016llx\n", name.c_str(), tensor,
                    static_cast<unsigned long long>(checksum(data.data(), bytes)));
      lines += line;
      if (options_.has("save"))
        save_npy(options_.text("save") + "/" + name + "." + tensor + ".npy", kind, shape, data.data(), bytes);
    };
    describe("value", problem.value, value, type);
    describe("spatial_shapes", sizes_.levels, {sizes_.L(), 2}, "<i8");
    describe("level_start_index", problem.starts, {sizes_.L()}, "<i8");
    describe("sampling_locations", problem.locations, pairs, type);
    describe("attention_weights", problem.attention, samples, type);
    describe("grad_output", problem.grad_output, rows, type);
    describe("grad_value", gradients.value, value, type);
    describe("grad_sampling_locations", gradients.locations, pairs, type);
    describe("grad_attention_weights", gradients.attention, samples, type);
    const std::lock_guard lock(mutex_);
    lines_[name] = lines;
  }

  void print() const {
    for (const auto& [name, lines] : lines_) std::fputs(lines.c_str(), stdout);
  }

  // The launches of one thread, on streams of its own.
  void thread(int t) {
    const int launches = options_.number("launches", 1), repeat = options_.number("repeat", 1);
    std::vector<cudaStream_t> streams(size_t(options_.number("streams", 1)));
    for (auto& stream : streams) CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    struct Started {
      std::string name;
      Problem<T> problem;
      std::unique_ptr<Buffers<T>> buffers;
      cudaStream_t stream;
      const Variant<T>* variant;
    };
    std::vector<Started> all;
    for (int i = 0; i < launches; ++i) {
      for (const auto& variant : chosen_) {
        char name[100];
        std::snprintf(name, sizeof name, "%d-%04d-%s", t, i, variant.name.c_str());
        Problem<T> problem = this->problem(t * launches + i);
        auto buffers = std::make_unique<Buffers<T>>(sizes_, problem);
        all.push_back({name, std::move(problem), std::move(buffers), streams[all.size() % streams.size()], &variant});
      }
    }
    CHECK(cudaDeviceSynchronize());
    for (auto& entry : all) {
      for (int r = 0; r < repeat; ++r) {
        entry.buffers->zero(entry.stream);
        if (options_.has("graph")) {
          through_graph(*entry.variant, *entry.buffers, entry.stream);
        } else {
          launch(*entry.variant, *entry.buffers, entry.stream);
        }
      }
      if (!options_.has("in-flight")) CHECK(cudaStreamSynchronize(entry.stream));
    }
    for (const auto stream : streams) CHECK(cudaStreamSynchronize(stream));
    for (auto& entry : all) report(entry.name, entry.problem, entry.buffers->gradients());
    for (const auto stream : streams) CHECK(cudaStreamDestroy(stream));
  }

  void through_graph(const Variant<T>& variant, const Buffers<T>& buffers, cudaStream_t stream) const {
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    launch(variant, buffers, stream);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&ready, graph, 0));
    CHECK(cudaGraphLaunch(ready, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaGraphExecDestroy(ready));
    CHECK(cudaGraphDestroy(graph));
  }

  // As a training loop: each step copies its contents to the same addresses, and its outputs from them. Nothing waits.
  void loop() {
    const int launches = options_.number("launches", 1);
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    std::vector<Problem<T>> problems;
    for (int i = 0; i < launches; ++i) problems.push_back(problem(i));
    const Buffers<T> buffers(sizes_, problems.at(0));
    struct Pinned {
      T *grad_output, *value, *locations, *attention, *grad_value, *grad_locations, *grad_attention;
    };
    std::vector<Pinned> pinned(problems.size());
    const auto room = [](T*& pointer, size_t count, const std::vector<T>* from) {
      CHECK(cudaMallocHost(&pointer, count * sizeof(T)));
      if (from != nullptr) std::memcpy(static_cast<void*>(pointer), from->data(), count * sizeof(T));
    };
    for (size_t i = 0; i < problems.size(); ++i) {
      room(pinned[i].grad_output, sizes_.rows(), &problems[i].grad_output);
      room(pinned[i].value, sizes_.value(), &problems[i].value);
      room(pinned[i].locations, 2 * sizes_.samples(), &problems[i].locations);
      room(pinned[i].attention, sizes_.samples(), &problems[i].attention);
      room(pinned[i].grad_value, sizes_.value(), nullptr);
      room(pinned[i].grad_locations, 2 * sizes_.samples(), nullptr);
      room(pinned[i].grad_attention, sizes_.samples(), nullptr);
    }
    CHECK(cudaDeviceSynchronize());
    const auto copy = [&](T* to, const T* from, size_t count) {
      CHECK(cudaMemcpyAsync(to, from, count * sizeof(T), cudaMemcpyDefault, stream));
    };
    for (const Pinned& step : pinned) {
      copy(buffers.grad_output, step.grad_output, sizes_.rows());
      copy(buffers.value, step.value, sizes_.value());
      copy(buffers.locations, step.locations, 2 * sizes_.samples());
      copy(buffers.attention, step.attention, sizes_.samples());
      buffers.zero(stream);
      launch(chosen_[0], buffers, stream);
      copy(step.grad_value, buffers.call.grad_value, sizes_.value());
      copy(step.grad_locations, buffers.call.grad_sampling_locations, 2 * sizes_.samples());
      copy(step.grad_attention, buffers.call.grad_attention_weights, sizes_.samples());
    }
    CHECK(cudaStreamSynchronize(stream));
    for (size_t i = 0; i < problems.size(); ++i) {
      char name[100];
      std::snprintf(name, sizeof name, "0-%04d-%s", int(i), chosen_[0].name.c_str());
      report(name, problems[i],
             {{pinned[i].grad_value, pinned[i].grad_value + sizes_.value()},
              {pinned[i].grad_locations, pinned[i].grad_locations + 2 * sizes_.samples()},
              {pinned[i].grad_attention, pinned[i].grad_attention + sizes_.samples()}});
    }
    print();
  }

  // One thread captures a graph in global mode, in which no thread may do what could wait; this one launches, which is
  // allowed, and waits when the capture has ended. Both must succeed. Run it with CUDA_MODULE_LOADING=EAGER: loading
  // code is not allowed either.
  void during_global_capture() {
    const Problem<T> mine = problem(0);
    const Buffers<T> buffers(sizes_, mine);
    cudaStream_t stream, captured;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&captured, cudaStreamNonBlocking));
    int* counter = upload(std::vector<int>{7});
    buffers.zero(stream);
    CHECK(cudaDeviceSynchronize());

    std::atomic<int> stage{0};
    std::thread another([&] {
      guarded([&] {
        CHECK(cudaStreamBeginCapture(captured, cudaStreamCaptureModeGlobal));
        CHECK(cudaMemsetAsync(counter, 0, sizeof(int), captured));
        stage = 1;
        while (stage < 2) std::this_thread::yield();
        CHECK(cudaMemsetAsync(counter, 1, sizeof(int), captured));
        cudaGraph_t graph;
        CHECK(cudaStreamEndCapture(captured, &graph));
        cudaGraphExec_t ready;
        CHECK(cudaGraphInstantiate(&ready, graph, 0));
        CHECK(cudaGraphLaunch(ready, captured));
        CHECK(cudaStreamSynchronize(captured));
      });
      stage = 3;
    });
    while (stage == 0) std::this_thread::yield();
    guarded([&] {
      if (stage == 1) launch(chosen_[0], buffers, stream);
    });
    int launched = 1;
    stage.compare_exchange_strong(launched, 2);
    another.join();
    if (!failure_.empty()) throw std::runtime_error(failure_);
    CHECK(cudaStreamSynchronize(stream));
    report("0-0000-" + chosen_[0].name, mine, buffers.gradients());
    print();
    std::printf("graph %08x\n", unsigned(download(counter, 1)[0]));
  }

  void on_host() {
    for (int i = 0; i < options_.number("launches", 1); ++i) {
      Problem<T> entry = problem(i);
      Gradients<T> gradients{std::vector<T>(sizes_.value(), T(0.f)), std::vector<T>(2 * sizes_.samples(), T(0.f)),
                             std::vector<T>(sizes_.samples(), T(0.f))};
      const Call<T> call{int(sizes_.rows()),
                         entry.grad_output.data(),
                         entry.value.data(),
                         sizes_.levels.data(),
                         entry.starts.data(),
                         entry.locations.data(),
                         entry.attention.data(),
                         sizes_.B,
                         sizes_.S(),
                         sizes_.M,
                         sizes_.D,
                         sizes_.L(),
                         sizes_.Q,
                         sizes_.P,
                         gradients.value.data(),
                         gradients.locations.data(),
                         gradients.attention.data()};
      for (size_t sample = 0; sample < sizes_.samples(); ++sample) differentiate(call, int64_t(sample));
      char name[100];
      std::snprintf(name, sizeof name, "0-%04d-host", i);
      report(name, entry, gradients);
    }
    print();
  }

  // Contents are new in every launch; tables of levels and zeroed output buffers stay, and are not counted as new.
  void timed() {
    using Clock = std::chrono::steady_clock;
    const int launches = options_.number("launches", 12);
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    Problem<T> content = problem(0);
    const Buffers<T> buffers(sizes_, content);
    struct Part {
      T* device;
      std::vector<T>* content;  // null: an output
      size_t count;
      T* host;
    };
    std::vector<Part> parts{{buffers.grad_output, &content.grad_output, sizes_.rows(), nullptr},
                            {buffers.value, &content.value, sizes_.value(), nullptr},
                            {buffers.locations, &content.locations, 2 * sizes_.samples(), nullptr},
                            {buffers.attention, &content.attention, sizes_.samples(), nullptr},
                            {buffers.call.grad_value, nullptr, sizes_.value(), nullptr},
                            {buffers.call.grad_sampling_locations, nullptr, 2 * sizes_.samples(), nullptr},
                            {buffers.call.grad_attention_weights, nullptr, sizes_.samples(), nullptr}};
    size_t bytes = 0;
    for (Part& part : parts) {
      CHECK(cudaMallocHost(&part.host, part.count * sizeof(T)));
      bytes += part.count * sizeof(T);
    }
    const auto microseconds = [](Clock::time_point begin) {
      return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
    };
    std::vector<double> waited, copied;
    for (int i = 0; i < launches; ++i) {
      for (Part& part : parts) {
        if (part.content == nullptr) continue;
        std::rotate(part.content->begin(), part.content->begin() + 1, part.content->end());
        CHECK(cudaMemcpy(part.device, part.content->data(), part.count * sizeof(T), cudaMemcpyHostToDevice));
      }
      buffers.zero(stream);
      CHECK(cudaStreamSynchronize(stream));
      // Lets the writer catch up; otherwise its work would be timed, too.
      std::this_thread::sleep_for(std::chrono::milliseconds(options_.number("pause", 0)));
      const auto begin = Clock::now();
      launch(chosen_[0], buffers, stream);
      CHECK(cudaStreamSynchronize(stream));
      waited.push_back(microseconds(begin));
      std::this_thread::sleep_for(std::chrono::milliseconds(options_.number("pause", 0)));
      const auto start = Clock::now();
      for (const Part& part : parts) {
        CHECK(cudaMemcpyAsync(part.host, part.device, part.count * sizeof(T), cudaMemcpyDeviceToHost, stream));
      }
      CHECK(cudaStreamSynchronize(stream));
      copied.push_back(microseconds(start));
    }
    // The first launches load code and pin memory.
    const auto from = [](const std::vector<double>& all) {
      return std::vector<double>(all.begin() + std::min<ptrdiff_t>(3, ptrdiff_t(all.size()) - 1), all.end());
    };
    std::printf("launch_us %.1f\ncopy_us %.1f\nbytes %zu\n", median(from(waited)), median(from(copied)), bytes);
  }

  const Options& options_;
  Sizes sizes_;
  std::vector<Variant<T>> chosen_;
  std::mutex mutex_;
  std::string failure_;
  std::map<std::string, std::string> lines_;
};

}  // namespace
}  // namespace gpu

int main(int count, char** arguments) {
  try {
    const gpu::Options options(
        count, arguments, {"ordered", "in-flight", "loop", "graph", "global-capture", "host", "time"},
        {"variant", "type", "launches", "streams", "threads", "repeat", "seed", "sizes", "levels", "save", "pause"});
    const std::string type = options.text("type", "float");
    if (type == "float") {
      gpu::Program<float>(options).run();
    } else if (type == "double") {
      gpu::Program<double>(options).run();
    } else if (type == "half") {
      gpu::Program<c10::Half>(options).run();
    } else {
      throw std::invalid_argument("--type " + type);
    }
    return 0;
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "%scol2im17: %s\n", gpu::kUsage, error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "col2im17: %s\n", error.what());
    return 1;
  }
}
