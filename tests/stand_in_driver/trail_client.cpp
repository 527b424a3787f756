// usage: stand_in_trail_client WORD[:NUMBER]... Copies, sets memory and launches kernels, and prints what each left:
// lines of a name and of bytes in hexadecimal digits, from which a test computes the digests that a trail has to have.
// STRAY in the environment is a number that comes with other addresses, padding and data of the host.
#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/stand_in_driver/client.h"
#include "tests/stand_in_driver/survey_images.h"

namespace msda::stand_in {
namespace {

uint64_t stray() {
  const char* const text = std::getenv("STRAY");
  return text != nullptr ? std::strtoull(text, nullptr, 0) : 0;
}

std::vector<int> numbers(size_t count, int first) {
  std::vector<int> all(count);
  for (size_t i = 0; i < count; ++i) all[i] = first + static_cast<int>(i);
  return all;
}

void say_host(const char* what, const void* data, size_t bytes) {
  std::printf("%s ", what);
  for (size_t i = 0; i < bytes; ++i) std::printf("%02x", static_cast<const unsigned char*>(data)[i]);
  std::printf("\n");
}

const void* on_host(CUdeviceptr address) { return reinterpret_cast<const void*>(static_cast<uintptr_t>(address)); }

constexpr size_t kBytes = 64;

class Program {
 public:
  explicit Program(const Client& client) : client_(client), graphs_(graph_api(Via::kDlsym)) {
    void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    rows_ = reinterpret_cast<decltype(rows_)>(dlsym(library, "cuMemcpy2DAsync_v2"));
    box_ = reinterpret_cast<decltype(box_)>(dlsym(library, "cuMemcpy3DAsync_v2"));
    map_ = reinterpret_cast<decltype(map_)>(dlsym(library, "cuMemMap"));
    unmap_ = reinterpret_cast<decltype(unmap_)>(dlsym(library, "cuMemUnmap"));
    query_ = reinterpret_cast<decltype(query_)>(dlsym(library, "cuStreamQuery"));
    register_ = reinterpret_cast<decltype(register_)>(dlsym(library, "cuMemHostRegister_v2"));
    if (!rows_ || !box_ || !map_ || !unmap_ || !query_ || !register_)
      throw std::runtime_error("libcuda.so.1 lacks functions");
    if (stray() != 0) client_.allocate(stray());  // what follows lies elsewhere
    for (const char* kernel : {"trail_fill", "trail_link", "survey_read_host", "tiny_kernel"}) {
      functions_[kernel] = client_.load_image(kernel, image_of(kernel, kPlain, false), "data", false);
    }
  }

  // Copies, sets and launches, of each kind.
  void rows(int) {
    const CUdeviceptr first = client_.upload(numbers(16, 100)), second = client_.allocate(kBytes);
    say("copy_in", first);
    check(client_.api().cuMemcpyDtoDAsync_v2(second, first, kBytes, nullptr));
    say("copy_within", second);
    check(client_.api().cuMemsetD8Async(second + 4, 7, 8, nullptr));
    say("set", second + 4, 8);
    check(graphs_.cuMemsetD32Async(second, 9, 3, nullptr));
    say("set_words", second, 12);
    fill(first, 16, 1000);
    say("launch", first);
    // Between addresses that say nothing of where they are.
    std::vector<int> host = numbers(16, 500);
    const auto of_host = reinterpret_cast<CUdeviceptr>(host.data());
    check(graphs_.cuMemcpyAsync(first, of_host, kBytes, nullptr));
    say("unified_in", first);
    check(graphs_.cuMemcpyAsync(of_host, second, kBytes, nullptr));
    client_.wait_for_all();
    say_host("unified_out", host.data(), kBytes);
    check(graphs_.cuMemcpyAsync(second, first, kBytes, nullptr));
    say("unified_within", second);
    copy_rows(first, host);
    copy_box(first, second);
    launch_graph(first, second);
    static_cast<void>(client_.download<int>(first, 16));
    say("copy_out", first);
  }

  // So many launches, three of each number.
  void learns(int times) {
    const CUdeviceptr to = client_.upload(numbers(64, 0));
    for (int i = 0; i < times; ++i) {
      fill(to + 16, 20, 1000 * (i / 3));
      say("learns", to, 4 * kBytes);
    }
  }

  // More than is compared at first: 6 MiB.
  void writes_much(int times) {
    constexpr int kCount = 3 << 19;
    const CUdeviceptr to = client_.allocate(sizeof(int) * kCount);
    for (int i = 0; i < times; ++i) fill(to, kCount, i % 2);
    client_.wait_for_all();
    std::printf("much %d\n", client_.download<int>(to, kCount)[kCount - 1]);
  }

  // Five numbers amidst 16 that hold other values in each run. No part of a unit of 16 bytes but these is the launch's.
  void writes_beside(int times) {
    const CUdeviceptr to = client_.upload(numbers(16, static_cast<int>(stray())));
    for (int i = 0; i < times; ++i) {
      fill(to + 20, 5, 1 << 24 | i << 8 | 1);
      say("beside", to);
    }
  }

  // What memory holds already, three times; and then not any more.
  void writes_again(int times) {
    const CUdeviceptr to = client_.upload(numbers(16, 5));
    for (int i = 0; i < times; ++i) {
      if (i >= 3) check(client_.api().cuMemsetD8Async(to, 0, kBytes, nullptr));
      fill(to, 16, 5);
      say("again", to);
    }
  }

  // So many numbers or as many more, of which memory holds all but the first; at last many, of which it holds none.
  void writes_more(int times) {
    constexpr int kMany = 512;
    const CUdeviceptr to = client_.upload(numbers(kMany, 1 << 24));
    for (int i = 0; i < times; ++i) {
      check(client_.api().cuMemsetD8Async(to, 0, sizeof(int), nullptr));
      fill(to, 16 << i % 2, 1 << 24);
      say("more", to);
    }
    check(client_.api().cuMemsetD8Async(to, 0, kMany * sizeof(int), nullptr));
    fill(to, kMany, 1 << 24);
    say("many", to, kMany * sizeof(int));
  }

  void writes_addresses(int times) {
    const CUdeviceptr to = client_.upload(numbers(16, 0));
    for (int i = 0; i < times; ++i) {
      const CUdeviceptr linked = to + 8 * static_cast<unsigned>(i % 2);
      const Argument arguments[] = {to, linked, i};
      launch("trail_link", nullptr, arguments);
      client_.wait_for_all();
      std::printf("link %d\n", client_.download<int>(to + 8, 1)[0]);
    }
  }

  // A table of addresses that the host fills in, and padding between what a kernel reads.
  void passes_padding(int) {
    struct Structure {
      uint64_t padding;
      int count;
      unsigned more;
      CUdeviceptr numbers;
    };
    const CUdeviceptr from = client_.upload(numbers(16, 3));
    client_.upload(std::vector<CUdeviceptr>{from, 17, from + 32, 0});
    const CUfunction function = client_.load_image("trail_sum", image_with_parameters(), "data", false);
    for (int i = 0; i < 3; ++i) {
      const Structure structure{stray() * 3 + 1, 16, static_cast<unsigned>(stray()), from};
      const CUdeviceptr result = client_.allocate(4);
      const Argument arguments[] = {result, structure};
      client_.launch({}, function, {4}, {32}, nullptr, arguments);
      say("sum", result, 4);
    }
  }

  // What the launches read in memory of the host, which changes it: the last time by STRAY.
  void reads_host(int times) {
    void* memory = nullptr;
    check(client_.api().cuMemHostAlloc(&memory, kBytes, 0));
    std::memset(memory, 0, kBytes);
    const auto from = reinterpret_cast<CUdeviceptr>(memory);
    const CUdeviceptr to = client_.allocate(kBytes);
    for (int i = 0; i < times; ++i) {
      *static_cast<int*>(memory) = i + (i == times - 1 ? static_cast<int>(stray()) : 0);
      say_host("host", memory, kBytes);
      const Argument arguments[] = {to, from};
      launch("survey_read_host", nullptr, arguments);
      say("read", to, 4);
    }
  }

  // The same of the program's own memory, whose address a launch has had before it was registered.
  void registers_host(int times) {
    alignas(kBytes) static std::array<int, kBytes / sizeof(int)> memory{};
    const auto from = reinterpret_cast<CUdeviceptr>(memory.data());
    const CUdeviceptr to = client_.upload(numbers(16, 0));
    const int index = 0;
    const Argument stored[] = {to, from, index};
    launch("trail_link", nullptr, stored);
    check(register_(memory.data(), sizeof memory, 0));
    for (memory[0] = 1; memory[0] <= times; ++memory[0]) {
      say_host("host", memory.data(), sizeof memory);
      const Argument arguments[] = {to, from};
      launch("survey_read_host", nullptr, arguments);
      client_.wait_for_all();
    }
  }

  // Memory that nobody wrote: it holds STRAY, as another program left it.
  void adds_to_fresh(int) {
    const CUdeviceptr number = client_.allocate(kBytes);
    *static_cast<int*>(const_cast<void*>(on_host(number))) = static_cast<int>(stray());
    const int unit = 1;
    const Argument arguments[] = {number, unit};
    launch("tiny_kernel", nullptr, arguments);
    say("fresh", number, 4);
  }

  // Two streams, with an event between them, and without.
  void orders_streams(int) { use_streams(true); }
  void leaves_streams(int) { use_streams(false); }

  // What a launch wrote is overwritten at once by one of the same stream, or by one of another stream that begins after
  // it: for an event, or because the host waited or asked until it was done.
  void hands_over(int times) {
    CUstream streams[2] = {};
    for (CUstream& stream : streams) check(client_.api().cuStreamCreate(&stream, kStreamNonBlocking));
    CUevent event = nullptr;
    check(client_.api().cuEventCreate(&event, 0));
    const CUdeviceptr to = client_.upload(std::vector<int>(16)), from = client_.upload(std::vector<int>(16));
    client_.wait_for_all();
    // Each returns the stream that may write to the memory next.
    const auto [first_stream, second_stream] = streams;
    const std::function<CUstream()> ways[] = {
        [&] { return first_stream; },
        [&] {
          check(client_.api().cuMemsetD8Async(to, 7, kBytes, first_stream));
          return first_stream;
        },
        [&] {
          check(client_.api().cuMemcpyDtoDAsync_v2(to, from, kBytes, first_stream));
          return first_stream;
        },
        [&] {
          check(client_.api().cuEventRecord(event, first_stream));
          check(client_.api().cuStreamWaitEvent(second_stream, event, 0));
          return second_stream;
        },
        [&] {
          check(client_.api().cuStreamSynchronize(first_stream));
          return second_stream;
        },
        [&] {
          while (query_(first_stream) != CUDA_SUCCESS) {
          }
          return second_stream;
        }};
    int number = 0;
    for (int i = 0; i < times; ++i) {
      for (const auto& hand_over : ways) {
        fill(to, 16, number, first_stream);
        CUstream second = hand_over();
        fill(to, 16, number + 100, second);
        check(client_.api().cuStreamSynchronize(second));
        for (const int first : {number, number + 100}) say_host("over", numbers(16, first).data(), kBytes);
        number += 1000;
      }
    }
  }

  void threads(int times) {
    std::vector<std::thread> all;
    std::vector<int> results(4);
    for (int& result : results) {
      all.emplace_back([this, &result, times] {
        client_.enter_thread();
        CUstream stream = nullptr;
        check(client_.api().cuStreamCreate(&stream, kStreamNonBlocking));
        const CUdeviceptr number = client_.upload(std::vector<int>{0});
        const int addend = 3;
        const Argument arguments[] = {number, addend};
        for (int i = 0; i < times; ++i) launch("tiny_kernel", stream, arguments);
        check(client_.api().cuStreamSynchronize(stream));
        result = client_.download<int>(number, 1)[0];
      });
    }
    for (std::thread& thread : all) thread.join();
    for (const int result : results) std::printf("thread %d\n", result);
  }

  // Launches on memory that is mapped in two pieces, and is then unmapped in one go as soon as the host sees that all
  // of them are done; and launches that store addresses of it then, as of any number.
  void maps(int times) {
    constexpr size_t kPiece = 1 << 16;
    std::vector<char> reserved(3 * kPiece);
    const CUdeviceptr begin = (reinterpret_cast<CUdeviceptr>(reserved.data()) + kPiece - 1) / kPiece * kPiece;
    for (const size_t piece : {size_t{0}, kPiece}) check(map_(begin + piece, kPiece, 0, 1, 0));
    void* memory = nullptr;
    check(client_.api().cuMemHostAlloc(&memory, kBytes, 0));
    std::memset(memory, 0, kBytes);
    const auto flag = reinterpret_cast<CUdeviceptr>(memory);
    const CUdeviceptr to = client_.upload(numbers(16, 0));
    for (int i = 0; i < times; ++i) fill(begin, 2 * kPiece / sizeof(int), i);  // through both pieces
    fill(flag, 1, 1);
    while (std::atomic_ref(*static_cast<int*>(memory)).load() == 0) std::this_thread::yield();
    say_host("mapped", on_host(begin), kBytes);
    check(unmap_(begin, 2 * kPiece));
    for (int i = 0; i < times; ++i) {
      const CUdeviceptr stale = begin + kPiece + 8 * static_cast<unsigned>(i);
      const Argument arguments[] = {to, stale, i};
      launch("trail_link", nullptr, arguments);
    }
    say("stale", to + 8, 8);
  }

  // Launches with equal parameters that copy another number each time, to memory that is unmapped and mapped again
  // there with other data.
  void maps_again(int times) {
    constexpr size_t kPiece = 1 << 12;
    std::vector<char> reserved(2 * kPiece);
    const CUdeviceptr to = (reinterpret_cast<CUdeviceptr>(reserved.data()) + kPiece - 1) / kPiece * kPiece;
    const CUdeviceptr from = client_.upload(numbers(16, 0));
    const std::array<uint64_t, 73> more{from};
    const CUfunction function =
        client_.load_image("trail_copy_wide", image_of("trail_copy_wide", kPlain, false), "data", false);
    for (const int data : {200, 201, 202}) {
      check(map_(to, kPiece, 0, 1, 0));
      std::memset(const_cast<void*>(on_host(to)), data, kPiece);
      say("mapped", to, kPiece);
      for (int i = 1; i <= times; ++i) {
        check(client_.api().cuMemsetD8Async(from, static_cast<unsigned char>(i), sizeof(int), nullptr));
        const Argument arguments[] = {to, from, more};
        client_.launch({}, function, {4}, {32}, nullptr, arguments);
        say("copied", to, 16);
      }
      check(unmap_(to, kPiece));
    }
  }

  // Launches that store addresses of memory that was known before another context ended.
  void ends_a_context(int times) {
    const CUdeviceptr to = client_.upload(numbers(16, 100));
    CUcontext another = nullptr;
    check(client_.api().cuCtxCreate_v2(&another, 0, 0));
    client_.allocate(kBytes);
    check(client_.api().cuCtxDestroy_v2(another));
    client_.enter_thread();
    for (int i = 0; i < times; ++i) {
      const Argument arguments[] = {to, to, i};
      launch("trail_link", nullptr, arguments);
      say("ended", to + 8, 8);
    }
  }

  // Equal launches, whose code is unloaded and loaded again after every twenty of them; then another function that has
  // the handle.
  void unloads(int times) {
    const auto load = [&](CUmodule& module, const char* kernel) {
      CUfunction function = nullptr;
      check(client_.api().cuModuleLoadData(&module, image_of(kernel, kPlain, false).c_str()));
      check(client_.api().cuModuleGetFunction(&function, module, kernel));
      return function;
    };
    const CUdeviceptr to = client_.upload(numbers(16, 0));
    CUmodule module = nullptr;
    const CUfunction function = load(module, "trail_fill");
    const int count = 16, first = 1000, unit = 1;
    const auto load_again = [&](const char* kernel) {
      check(client_.api().cuModuleUnload(module));
      if (load(module, kernel) != function) throw std::runtime_error("the handle does not come again");
    };
    for (int i = 0; i < times; ++i) {
      if (i > 0 && i % 20 == 0) load_again("trail_fill");
      const Argument arguments[] = {to, count, first};
      client_.launch({}, function, {4}, {32}, nullptr, arguments);
      say("unloads", to);
    }
    load_again("tiny_kernel");
    const Argument arguments[] = {to, unit};
    client_.launch({}, function, {4}, {32}, nullptr, arguments);
    client_.wait_for_all();
  }

  // Prints a line for each launch, until it is killed.
  void runs_on(int) {
    const CUdeviceptr to = client_.upload(numbers(16, 0));
    for (int i = 0;; ++i) {
      fill(to, 16, i);
      client_.wait_for_all();
      std::printf("x\n");
      std::fflush(stdout);
    }
  }

 private:
  void check(CUresult result) const { client_.check(result); }

  // Reads 8 bytes, 4 bytes 16 bytes behind them, and then 8 bytes, as sm_90 does; and the attribute that says where
  // parameters begin.
  static std::string image_with_parameters() {
    constexpr uint64_t kCode[] = {0x00008400ff027b82, 0x000e220000000a00, 0x0000880000057ab9,
                                  0x000fe40000000800, 0x00008a00ff067b82, 0x000e220000000a00};
    constexpr uint16_t kAttribute[] = {0x0A04, 8, 1, 0, 0x210, 32};
    return record::test::make_cubin({"trail_sum"}, record::test::bytes_of(kCode),
                                    {{".nv.info.trail_sum", SHT_PROGBITS, record::test::bytes_of(kAttribute)}});
  }

  // What the device has: by a look that is no copy.
  void say(const char* what, CUdeviceptr from, size_t bytes = kBytes) const {
    client_.wait_for_all();
    say_host(what, on_host(from), bytes);
  }

  void launch(const std::string& kernel, CUstream stream, std::span<const Argument> arguments) const {
    client_.launch({}, functions_.at(kernel), {4}, {32}, stream, arguments);
  }
  void fill(CUdeviceptr to, int count, int first, CUstream stream = nullptr) const {
    const Argument arguments[] = {to, count, first};
    launch("trail_fill", stream, arguments);
  }

  // Two rows of 8 bytes: those of the device are 32 bytes apart.
  void copy_rows(CUdeviceptr device, std::vector<int>& host) {
    cuda::CopyOfRows in{};
    in.from.type = cuda::MemoryType::kHost;
    in.from.host = host.data();
    in.from.pitch = 16;
    in.to.type = cuda::MemoryType::kDevice;
    in.to.device = device;
    in.to.pitch = 32;
    in.width = 8;
    in.height = 2;
    check(rows_(&in, nullptr));
    say("rows_in", device, 40);
    cuda::CopyOfRows out{};
    out.from.type = cuda::MemoryType::kDevice;
    out.from.device = device;
    out.from.pitch = 32;
    out.to.type = cuda::MemoryType::kHost;
    out.to.host = host.data();
    out.to.pitch = 8;
    out.width = 8;
    out.height = 2;
    check(rows_(&out, nullptr));
    say("rows_out", device, 40);
  }

  // Two layers of 16 bytes.
  void copy_box(CUdeviceptr from, CUdeviceptr to) {
    cuda::CopyOfBox copy{};
    copy.from.type = copy.to.type = cuda::MemoryType::kDevice;
    copy.from.device = from;
    copy.to.device = to;
    copy.from.pitch = copy.to.pitch = 8;
    copy.from.height = copy.to.height = 2;
    copy.width = 8;
    copy.height = 2;
    copy.depth = 2;
    check(box_(&copy, nullptr));
    say("box_first", to, 16);
    say("box_second", to + 16, 16);
  }

  void launch_graph(CUdeviceptr first, CUdeviceptr second) {
    CUstream stream = nullptr;
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    check(client_.api().cuStreamCreate(&stream, kStreamNonBlocking));
    check(graphs_.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    fill(first, 4, 70, stream);
    check(graphs_.cuMemcpyDtoDAsync_v2(second, first, 16, stream));
    check(graphs_.cuStreamEndCapture(stream, &graph));
    check(graphs_.cuGraphInstantiateWithFlags(&exec, graph, 0));
    check(graphs_.cuGraphLaunch(exec, stream));
    say("graph_first", first, 16);
    say("graph_second", second, 16);
  }

  void use_streams(bool is_ordered) {
    CUstream streams[2] = {};
    for (CUstream& stream : streams) check(client_.api().cuStreamCreate(&stream, kStreamNonBlocking));
    CUevent event = nullptr;
    check(client_.api().cuEventCreate(&event, 0));
    const CUdeviceptr to = client_.upload(std::vector<int>(16));
    client_.wait_for_all();
    for (int i = 0; i < 2; ++i) {
      fill(to, 16, 10 * i, streams[0]);
      if (is_ordered) {
        check(client_.api().cuEventRecord(event, streams[0]));
        check(client_.api().cuStreamWaitEvent(streams[1], event, 0));
      }
      fill(to, 16, 10 * i, streams[1]);
      say("streams", to);
    }
  }

  const Client& client_;
  GraphApi graphs_;
  decltype(&cuMemcpy2DAsync_v2) rows_ = nullptr;
  decltype(&cuMemcpy3DAsync_v2) box_ = nullptr;
  decltype(&cuMemMap) map_ = nullptr;
  decltype(&cuMemUnmap) unmap_ = nullptr;
  decltype(&cuStreamQuery) query_ = nullptr;
  decltype(&cuMemHostRegister_v2) register_ = nullptr;
  std::map<std::string, CUfunction> functions_;
};

}  // namespace
}  // namespace msda::stand_in

int main(int argc, char** argv) {
  using msda::stand_in::Program;
  const std::map<std::string_view, void (Program::*)(int)> parts{{"rows", &Program::rows},
                                                                 {"learns", &Program::learns},
                                                                 {"writes_much", &Program::writes_much},
                                                                 {"writes_beside", &Program::writes_beside},
                                                                 {"writes_again", &Program::writes_again},
                                                                 {"writes_more", &Program::writes_more},
                                                                 {"writes_addresses", &Program::writes_addresses},
                                                                 {"passes_padding", &Program::passes_padding},
                                                                 {"reads_host", &Program::reads_host},
                                                                 {"registers_host", &Program::registers_host},
                                                                 {"adds_to_fresh", &Program::adds_to_fresh},
                                                                 {"orders_streams", &Program::orders_streams},
                                                                 {"leaves_streams", &Program::leaves_streams},
                                                                 {"hands_over", &Program::hands_over},
                                                                 {"threads", &Program::threads},
                                                                 {"maps", &Program::maps},
                                                                 {"maps_again", &Program::maps_again},
                                                                 {"ends_a_context", &Program::ends_a_context},
                                                                 {"unloads", &Program::unloads},
                                                                 {"runs_on", &Program::runs_on}};
  try {
    const msda::stand_in::Client client(msda::stand_in::Via::kProcAddress);
    Program program(client);
    for (int i = 1; i < argc; ++i) {
      const std::string_view word = argv[i];
      const size_t colon = word.find(':');
      const int number = colon == word.npos ? 0 : std::atoi(argv[i] + colon + 1);
      (program.*parts.at(word.substr(0, colon)))(number);
    }
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "stand_in_trail_client: %s\n", e.what());
    return 1;
  }
}
