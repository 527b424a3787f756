// Launches kernels of the stand-in driver on random problems and prints a checksum of each output: a run under a
// recorder has to print the same as one without.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>
#include <mutex>
#include <optional>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>

#include "tests/stand_in_driver/client.h"
#include "tests/stand_in_driver/client_numbers.h"
#include "tests/stand_in_driver/other_launches.h"
#include "tests/stand_in_driver/profiler.h"

namespace msda::stand_in {
namespace {

constexpr char kUsage[] =
    "stand_in_client [--kernel col2im17|col2im17_gm|triton|grid_sample|grid_sample_3d|scale_add|\n"
    "                 whereabouts|poison_KERNEL|tiny] [--launches N]\n"
    "                [--via dlsym|procaddress|linked] [--streams S] [--threads T] [--seed X] [--ex|--cooperative] "
    "[--packed] "
    "[--ptsz]\n"
    "                [--hidden] [--as-kernel] [--double] [--repeat R] [--image FILE]... [--load data|ex|fatbin]\n"
    "                [--tune N] [--change K] [--inside N] [--turn N] [--refused N]\n"
    "                [--cupti] [--profile N] [--finalize N]\n"
    "  --streams 0 launches on the default stream; --packed passes arguments by `extra`; --ptsz calls the twins for "
    "the\n"
    "  per-thread default stream; --as-kernel launches a CUkernel; --double is for col2im17, grid_sample\n"
    "  and grid_sample_3d;\n"
    "  --repeat R launches every problem R times, as an autotuner does: all but the last find grad_value not zeroed;\n"
    "  sums of rows have other indices each time, in the same memory\n"
    "  --tune N measures N launches on the same buffers with events first, and waits; --change K: before measured "
    "launch "
    "K\n"
    "  all the attention weights become others\n"
    "  --inside N: the samples of the first N launches lie inside the image\n"
    "  --turn N launches N times first, on the same buffers, with other weights each time, and turns the levels by 90 "
    "degrees\n  after each, as images of another orientation do\n"
    "  --refused N: before each launch N others are refused by the driver, as their blocks have too many threads\n"
    "  --hidden launches by a function that no hook knows; --image, which may come again, is loaded for the kernel, "
    "and\n"
    "  launches take the images in turn; --cupti loads libcupti first, as PyTorch does; --profile N subscribes to "
    "CUPTI\n"
    "  before launch N and prints of how many launches it was notified; --finalize N calls cuptiFinalize then\n";

struct Options {
  std::string kernel = "col2im17";
  int launches = 1, streams = 1, threads = 1, repeat = 1, tune = 0, change = -1, inside = 0, turn = 0, refused = 0;
  uint64_t seed = 1;
  Via via = Via::kDlsym;
  LaunchWay way;
  bool as_kernel = false, float64 = false, cupti = false;
  std::vector<std::string> images;
  std::string load = "data";
  int profile = -1, finalize = -1;
};

// How a kernel that is not the operator's backward is launched; null for the others.
auto other_launch(const Options& options) -> std::string (*)(const Client&, const OtherLaunch&) {
  const bool wide = options.float64;
  if (options.kernel == "grid_sample") return wide ? launch_grid_sampler<double, 2> : launch_grid_sampler<float, 2>;
  if (options.kernel == "grid_sample_3d") return wide ? launch_grid_sampler<double, 3> : launch_grid_sampler<float, 3>;
  if (options.kernel == "roi_align") return launch_roi_align;
  if (options.kernel == "deform_conv2d") return launch_deform_conv2d;
  if (options.kernel == "upsample_bilinear2d") return launch_upsample_bilinear2d;
  if (options.kernel == "upsample_nearest2d") return launch_upsample_nearest2d;
  if (options.kernel == "index_add") return launch_index_add;
  if (options.kernel == "index_put") return launch_index_put;
  if (options.kernel == "embedding") return launch_embedding;
  if (options.kernel == "scale_add") return launch_scale_add;
  if (options.kernel.starts_with("poison_")) return launch_poison;
  return options.kernel == "whereabouts" ? launch_whereabouts : nullptr;
}

Options parse(int count, char** arguments) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string name = arguments[i];
    const auto value = [&]() -> std::string {
      if (++i == count) throw std::invalid_argument(name + " needs a value");
      return arguments[i];
    };
    if (name == "--kernel") {
      options.kernel = value();
    } else if (name == "--launches") {
      options.launches = std::stoi(value());
    } else if (name == "--streams") {
      options.streams = std::stoi(value());
    } else if (name == "--threads") {
      options.threads = std::stoi(value());
    } else if (name == "--repeat") {
      options.repeat = std::stoi(value());
    } else if (name == "--tune") {
      options.tune = std::stoi(value());
    } else if (name == "--change") {
      options.change = std::stoi(value());
    } else if (name == "--turn") {
      options.turn = std::stoi(value());
    } else if (name == "--refused") {
      options.refused = std::stoi(value());
    } else if (name == "--inside") {
      options.inside = std::stoi(value());
    } else if (name == "--seed") {
      options.seed = std::stoull(value());
    } else if (name == "--via") {
      const std::string via = value();
      if (via != "dlsym" && via != "procaddress" && via != "linked") throw std::invalid_argument("--via " + via);
      options.via = via == "dlsym" ? Via::kDlsym : via == "linked" ? Via::kLinked : Via::kProcAddress;
    } else if (name == "--image") {
      options.images.push_back(value());
    } else if (name == "--load") {
      options.load = value();
    } else if (name == "--profile") {
      options.profile = std::stoi(value());
    } else if (name == "--finalize") {
      options.finalize = std::stoi(value());
    } else if (name == "--cupti") {
      options.cupti = true;
    } else if (name == "--hidden") {
      options.way.hidden = true;
    } else if (name == "--ex") {
      options.way.ex = true;
    } else if (name == "--cooperative") {
      options.way.cooperative = true;
    } else if (name == "--packed") {
      options.way.packed = true;
    } else if (name == "--ptsz") {
      options.way.per_thread_default = true;
    } else if (name == "--as-kernel") {
      options.as_kernel = true;
    } else if (name == "--double") {
      options.float64 = true;
    } else {
      throw std::invalid_argument("unknown argument " + name);
    }
  }
  const bool another = other_launch(options) != nullptr;
  const bool sums_rows =
      options.kernel == "index_add" || options.kernel == "index_put" || options.kernel == "embedding";
  const bool known = another || options.kernel == "col2im17" || options.kernel == "col2im17_gm" ||
                     options.kernel == "triton" || options.kernel == "tiny";
  if (!known || (another && (options.threads > 1 || (options.repeat > 1 && !sums_rows))) || options.launches < 0 ||
      options.streams < 0 || options.threads < 1 || options.repeat < 1 ||
      (options.float64 && options.kernel != "col2im17" && !options.kernel.starts_with("grid_sample"))) {
    throw std::invalid_argument("these arguments make no sense together");
  }
  return options;
}

std::string kernel_name(const Options& options) {
  if (other_launch(options)) return "";  // loaded where they are launched
  if (options.kernel == "tiny") return "tiny_kernel";
  if (options.kernel == "col2im17_gm") {
    return "_Z34ms_deformable_col2im_gpu_kernel_gmIfEviPKT_S2_PKlS4_S2_S2_iiiiiiiPS0_S5_S5_";
  }
  if (options.kernel == "triton") return "triton_multi_scale_deformable_attention_bwd_kernel";
  return std::string("_Z61ms_deformable_col2im_gpu_kernel_shm_blocksize_aware_reduce_v1I") +
         (options.float64 ? "d" : "f") + "Lj32EEviPKT_S2_PKlS4_S2_S2_iiiiiiiPS0_S5_S5_";
}

constexpr int B = 2, Q = 40, M = 2, D = 8, L = 2, P = 2, S = 9 * 7 + 5 * 4;
constexpr size_t kSamples = size_t{B} * Q * M * L * P;

// What one launch has on the device, and where its outputs go in pinned host memory.
struct Buffer {
  CUdeviceptr device = 0;
  size_t bytes = 0;
  void* host = nullptr;
};

// As Triton's autotuner does: a launch and a wait, then launches that are measured one by one.
template <class Launch>
void tune(const Client& client, const Options& options, CUstream stream, const Buffer& weights, Launch&& launch) {
  const Api& api = client.api();
  launch();
  client.check(api.cuStreamSynchronize(stream));
  std::vector<CUevent> events(static_cast<size_t>(2 * options.tune));
  for (CUevent& event : events) client.check(api.cuEventCreate(&event, 0));
  for (int i = 0; i < options.tune; ++i) {
    if (i == options.change) client.check(api.cuMemsetD8Async(weights.device, 0x3E, weights.bytes, stream));
    client.check(api.cuEventRecord(events[static_cast<size_t>(2 * i)], stream));
    launch();
    client.check(api.cuEventRecord(events[static_cast<size_t>(2 * i) + 1], stream));
  }
  if (!events.empty()) client.check(api.cuEventSynchronize(events.back()));
  for (const CUevent event : events) client.check(api.cuEventDestroy_v2(event));
}

// Launches on its own problem. What the launch read and wrote is overwritten right after it on the same stream, as a
// caching allocator's next user would: who reads it out of order reads 0xFF.
template <class T>
std::vector<Buffer> launch_backward(const Client& client, const Options& options, int launch, CUfunction function,
                                    CUstream stream) {
  std::mt19937_64 random(options.seed + static_cast<uint64_t>(launch / options.repeat));
  std::vector<Buffer> buffers;
  const auto upload = [&](const auto& values) {
    buffers.push_back({client.upload(values), values.size() * sizeof(values[0])});
    return buffers.back().device;
  };
  const CUdeviceptr value = upload(uniform<T>(random, size_t{B} * S * M * D, -1, 1));
  const CUdeviceptr shapes = upload(std::vector<int64_t>{9, 7, 5, 4});
  const CUdeviceptr starts = upload(std::vector<int64_t>{0, 63});
  const bool inside = launch < options.inside;
  const CUdeviceptr locations = upload(uniform<T>(random, 2 * kSamples, inside ? 0.2 : -0.1, inside ? 0.8 : 1.1));
  const CUdeviceptr attention = upload(uniform<T>(random, kSamples, 0, 1));
  const CUdeviceptr grad_output = upload(uniform<T>(random, size_t{B} * Q * M * D, -1, 1));
  // With --ptsz the default stream is the thread's; copies have no twins in the stand-in, but that stream has a handle.
  if (!stream && options.way.per_thread_default) stream = reinterpret_cast<CUstream>(kStreamPerThread);
  const size_t inputs = buffers.size();
  for (const size_t count : {size_t{B} * S * M * D, 2 * kSamples, kSamples}) {
    buffers.push_back({client.allocate(count * sizeof(T)), count * sizeof(T)});
    client.check(client.api().cuMemHostAlloc(&buffers.back().host, buffers.back().bytes, 0));
  }
  const CUdeviceptr grad_value = buffers[inputs].device, grad_locations = buffers[inputs + 1].device;
  const CUdeviceptr grad_attention = buffers[inputs + 2].device, scratch = 0;
  const bool is_autotuner_launch = launch % options.repeat < options.repeat - 1;
  const auto launch_once = [&](unsigned int times_threads = 1) {
    client.check(
        client.api().cuMemsetD8Async(grad_value, is_autotuner_launch ? 0x3F : 0, buffers[inputs].bytes, stream));
    if (options.kernel == "triton") {
      const Argument arguments[] = {grad_value,
                                    grad_locations,
                                    grad_attention,
                                    grad_output,
                                    value,
                                    locations,
                                    attention,
                                    shapes,
                                    B,
                                    S,
                                    D,
                                    Q,
                                    M,
                                    L,
                                    P,
                                    scratch,
                                    scratch};
      client.launch(options.way, function, {Q, B, M}, {128 * times_threads}, stream, arguments);
    } else {
      const int n = B * Q * M * D;
      const Argument arguments[] = {n, grad_output, value, shapes, starts,     locations,      attention,     B, S, M,
                                    D, L,           Q,     P,      grad_value, grad_locations, grad_attention};
      client.launch(options.way, function, {B * Q * M}, {D * times_threads}, stream, arguments);
    }
  };
  for (int i = 0; i < options.refused; ++i) {
    try {
      launch_once(1024);
    } catch (const std::runtime_error&) {
      continue;
    }
    throw std::logic_error("a launch of too many threads was not refused");
  }
  if (options.tune > 0) tune(client, options, stream, buffers[4], launch_once);
  for (int i = 0; i < options.turn; ++i) {
    launch_once();
    client.check(client.api().cuStreamSynchronize(stream));
    // As a training step: what a recorder does behind it is done before the next.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const auto levels = i % 2 == 0 ? std::vector<int64_t>{7, 9, 4, 5} : std::vector<int64_t>{9, 7, 5, 4};
    client.check(client.api().cuMemcpyHtoD_v2(shapes, levels.data(), levels.size() * sizeof(levels[0])));
    client.check(
        client.api().cuMemsetD8Async(attention, static_cast<unsigned char>(0x30 + i), buffers[4].bytes, stream));
  }
  launch_once();
  for (const Buffer& buffer : buffers) {
    if (buffer.host) {
      client.check(client.api().cuMemcpyDtoHAsync_v2(buffer.host, buffer.device, buffer.bytes, stream));
    }
    client.check(client.api().cuMemsetD8Async(buffer.device, 0xFF, buffer.bytes, stream));
  }
  return buffers;
}

// The launches of one thread: every T-th, over the streams in turn.
class Worker {
 public:
  Worker(const Client& client, const Options& options, const std::vector<CUfunction>& functions,
         const std::vector<CUstream>& streams)
      : client_(client), options_(options), functions_(functions), streams_(streams) {}

  void tiny(int thread, std::vector<std::string>& lines) const {
    const std::vector<CUdeviceptr> sums = [&] {
      std::vector<CUdeviceptr> all;
      for (size_t i = 0; i < streams_.size(); ++i) all.push_back(client_.upload(std::vector<int>{0}));
      return all;
    }();
    for (int i = thread; i < options_.launches; i += options_.threads) {
      const size_t at = static_cast<size_t>(i) % streams_.size();
      const int addend = i % 7 + 1;
      const Argument arguments[] = {sums[at], addend};
      client_.launch(options_.way, functions_[0], {}, {}, streams_[at], arguments);
    }
    synchronize();
    int total = 0;
    for (const CUdeviceptr sum : sums) {
      total += client_.download<int>(sum, 1)[0];
      client_.check(client_.api().cuMemFree_v2(sum));
    }
    lines[static_cast<size_t>(thread)] = line(thread, "sum", checksum(&total, sizeof total));
  }

  void backward(int thread, std::vector<std::string>& lines) const {
    std::vector<std::pair<int, std::vector<Buffer>>> launched;
    std::optional<Profiler> profiler;
    for (int i = thread; i < options_.launches; i += options_.threads) {
      const CUstream stream = streams_[static_cast<size_t>(i) % streams_.size()];
      const auto launch = options_.float64 ? launch_backward<double> : launch_backward<float>;
      if (i == options_.profile) profiler.emplace(profiler_api(options_.via));
      if (i == options_.finalize) profiler_api(options_.via).finalize();
      const CUfunction function = functions_[static_cast<size_t>(i) % functions_.size()];
      launched.emplace_back(i, launch(client_, options_, i, function, stream));
    }
    synchronize();
    if (profiler) lines[0] = "profiler: " + std::to_string(profiler->launches()) + " launches\n";
    constexpr std::string_view kNames[] = {"grad_value", "grad_sampling_locations", "grad_attention_weights"};
    for (const auto& [i, buffers] : launched) {
      size_t output = 0;
      for (const Buffer& buffer : buffers) {
        if (buffer.host) {
          lines[static_cast<size_t>(i)] += line(i, kNames[output++], checksum(buffer.host, buffer.bytes));
          client_.check(client_.api().cuMemFreeHost(buffer.host));
        }
        client_.check(client_.api().cuMemFree_v2(buffer.device));
      }
    }
  }

 private:
  void synchronize() const {
    for (const CUstream stream : streams_) client_.check(client_.api().cuStreamSynchronize(stream));
    if (options_.way.per_thread_default) {
      client_.check(client_.api().cuStreamSynchronize(reinterpret_cast<CUstream>(kStreamPerThread)));
    }
    client_.wait_for_all();
  }

  const Client& client_;
  const Options& options_;
  const std::vector<CUfunction>& functions_;
  const std::vector<CUstream>& streams_;
};

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void run(const Options& options) {
  if (options.cupti) profiler_api(options.via);
  const Client client(options.via);
  const std::string kernel = kernel_name(options);
  if (kernel.empty()) {
    const std::string image = options.images.empty() ? "" : read_file(options.images[0]);
    for (int i = 0; i < options.launches; ++i) {
      const OtherLaunch launch{options.way,    options.as_kernel, options.seed + static_cast<uint64_t>(i), i, image,
                               options.kernel, options.repeat};
      std::fputs(other_launch(options)(client, launch).c_str(), stdout);
    }
    return;
  }
  std::vector<CUfunction> functions;
  for (const std::string& path : options.images) {
    functions.push_back(client.load_image(kernel, read_file(path), options.load, options.as_kernel));
  }
  if (functions.empty()) functions.push_back(client.load(kernel, options.as_kernel));
  std::vector<CUstream> streams(static_cast<size_t>(std::max(options.streams, 1)), nullptr);
  // Non-blocking, as PyTorch's are.
  for (int i = 0; i < options.streams; ++i) {
    client.check(client.api().cuStreamCreate(&streams[static_cast<size_t>(i)], kStreamNonBlocking));
  }
  const bool tiny = options.kernel == "tiny";
  const Worker worker(client, options, functions, streams);
  std::vector<std::string> lines(static_cast<size_t>(tiny ? options.threads : options.launches));
  std::mutex mutex;
  std::exception_ptr failure;
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  for (int t = 0; t < options.threads; ++t) {
    threads.emplace_back([&, t] {
      try {
        client.enter_thread();
        tiny ? worker.tiny(t, lines) : worker.backward(t, lines);
      } catch (...) {
        const std::lock_guard lock(mutex);
        failure = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
  const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - start;
  for (const CUstream stream : streams) {
    if (stream) client.check(client.api().cuStreamDestroy_v2(stream));
  }
  for (const std::string& text : lines) std::fputs(text.c_str(), stdout);
  if (options.launches) std::fprintf(stderr, "%.3f us a launch\n", taken.count() / options.launches);
}

}  // namespace
}  // namespace msda::stand_in

int main(int count, char** arguments) {
  try {
    msda::stand_in::run(msda::stand_in::parse(count, arguments));
    return 0;
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "stand_in_client: %s\n%s", error.what(), msda::stand_in::kUsage);
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "stand_in_client: %s\n", error.what());
    return 1;
  }
}
