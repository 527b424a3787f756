// Compares the writer of captures with plain sequential writing: the same bytes, on the same disk, in alternation. They
// reach the writer as from a recorded program: through shared memory and a spool, to a process msda-record --follow.
#include <CLI/CLI.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "recorder/preload/session/target_ring.h"
#include "recorder/preload/session/writer_process.h"
#include "recorder/spool/appender.h"

namespace {

using namespace msda;  // NOLINT
using Clock = std::chrono::steady_clock;

struct Options {
  double gigabytes = 4;
  int rounds = 5;
  std::string folder = ".", writer;
  double least = 0.8;
  uint64_t ring_megabytes = 256;
};

struct Tensor {
  const char *section, *name;
  std::vector<int64_t> shape;
  uint64_t offset = 0, bytes = 0;  // in the invocation
};

// A call of B4 S5440 M8 D32 Q1000 L4 P3 in float32. Its numbers do not matter.
class Invocation {
 public:
  Invocation() {
    const std::vector<int64_t> value{4, 5440, 8, 32}, locations{4, 1000, 8, 4, 3, 2}, weights{4, 1000, 8, 4, 3};
    add("inputs", "value", value);
    add("inputs", "sampling_locations", locations);
    add("inputs", "attention_weights", weights);
    add("inputs", "grad_output", {4, 1000, 8, 32});
    for (const char* section : {"outputs_before", "outputs"}) {
      add(section, "grad_value", value);
      add(section, "grad_sampling_locations", locations);
      add(section, "grad_attention_weights", weights);
    }
    contents_.resize(bytes_ / sizeof(uint64_t));
    std::mt19937_64 random(1);
    for (uint64_t& number : contents_) number = random();
  }
  uint64_t bytes() const { return bytes_; }
  uint64_t pages() const { return bytes_ & ~uint64_t{4095}; }  // bytes of the complete pages
  const std::vector<Tensor>& tensors() const { return tensors_; }
  void fill(std::byte* memory) const { std::memcpy(memory, contents_.data(), bytes_); }
  // Makes every page differ from all pages written before.
  static void mark(std::byte* memory, uint64_t bytes, uint64_t number) {
    for (uint64_t at = 0; at + sizeof number <= bytes; at += 4096) std::memcpy(memory + at, &number, sizeof number);
  }

 private:
  void add(const char* section, const char* name, const std::vector<int64_t>& shape) {
    uint64_t bytes = sizeof(float);
    for (const int64_t side : shape) bytes *= static_cast<uint64_t>(side);
    tensors_.push_back({section, name, shape, bytes_, bytes});
    bytes_ += bytes;
  }
  std::vector<Tensor> tensors_;
  uint64_t bytes_ = 0;
  std::vector<uint64_t> contents_;
};

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what + ": " + std::strerror(errno)); }

struct Seconds {
  double to_close = 0, to_disk = 0;
};

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

void sync(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0 || fsync(file) != 0) fail(path);
  close(file);
}

// A virtual machine returns unused memory to its host, and getting it back takes longer than writing a page. Each side
// therefore gets, piece by piece as it writes, memory that has just been in use.
class WarmMemory {
 public:
  explicit WarmMemory(uint64_t bytes) : left_(bytes) {
    memory_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory_ == MAP_FAILED) throw std::runtime_error("not enough memory");
    madvise(memory_, bytes, MADV_DONTFORK);  // starting the writer must not copy it
  }
  WarmMemory(const WarmMemory&) = delete;
  WarmMemory& operator=(const WarmMemory&) = delete;
  ~WarmMemory() { give(left_); }
  void give(uint64_t bytes) {
    bytes = std::min(bytes, left_);
    left_ -= bytes;
    if (bytes > 0) munmap(static_cast<std::byte*>(memory_) + left_, bytes);
  }

 private:
  void* memory_ = nullptr;
  uint64_t left_;
};

Seconds write_plainly(const Invocation& invocation, int invocations, const std::string& path) {
  WarmMemory warm(invocation.pages() * static_cast<uint64_t>(invocations));
  std::vector<std::byte> memory(invocation.bytes());
  invocation.fill(memory.data());
  auto start = Clock::now();
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) fail(path);
  for (int i = 0; i < invocations; ++i) {
    const auto marking = Clock::now();
    warm.give(invocation.pages());
    Invocation::mark(memory.data(), memory.size(), static_cast<uint64_t>(i));
    start += Clock::now() - marking;
    for (const Tensor& tensor : invocation.tensors()) {
      if (write(file, memory.data() + tensor.offset, tensor.bytes) != static_cast<ssize_t>(tensor.bytes)) fail(path);
    }
  }
  close(file);
  Seconds seconds{since(start), 0};
  sync(path);
  seconds.to_disk = since(start);
  std::filesystem::remove(path);
  return seconds;
}

struct Written {
  Seconds seconds;
  rusage used{};
};

Written write_capture(const Options& options, const Invocation& invocation, int invocations, const std::string& path) {
  WarmMemory warm(invocation.pages() * static_cast<uint64_t>(invocations) + (options.ring_megabytes << 20));
  warm.give(options.ring_megabytes << 20);
  const std::string spool_path = path + ".spool";
  const auto start = Clock::now();
  record::TargetRing ring;
  spool::Appender spool;
  record::WriterProcess writer;
  if (!ring.open(options.ring_megabytes << 20, {nullptr, nullptr, []() noexcept {}, []() noexcept { return true; }}))
    fail("shared memory");
  if ((errno = spool.open(spool_path)) != 0) fail(spool_path);
  errno = writer.start({options.writer, spool_path, path, true, 0, "none", -1, ring.descriptor()});
  if (errno != 0) fail(options.writer);
  spool.append(spool::Run{});
  std::set<uint64_t> filled;
  for (int i = 0; i < invocations; ++i) {
    const auto number = static_cast<uint64_t>(i);
    std::string why;
    auto block = ring.reserve(invocation.bytes(), why);
    if (!block) throw std::runtime_error(why);
    warm.give(invocation.pages());
    if (filled.insert(block->offset()).second) invocation.fill(block->memory());
    Invocation::mark(block->memory(), invocation.bytes(), number);
    spool::Begin begin;
    begin.invocation = number;
    begin.texts = {{"kernel", "bench"}, {"dialect", "deformable_detr"}};
    spool.append(begin);
    for (const Tensor& tensor : invocation.tensors()) {
      spool.append(spool::Tensor{number,
                                 0,
                                 tensor.section,
                                 {tensor.name, MSDA_FLOAT32, tensor.shape, {}},
                                 block->number(),
                                 block->offset() + tensor.offset,
                                 tensor.bytes});
    }
    spool.append(spool::End{number, 0});
    block->hand_over();
    writer.notify();
  }
  ring.close();  // as when the process ends
  writer.close_in_child();
  Written written;
  int status = 0;
  if (wait4(-1, &status, __WALL, &written.used) < 0) fail("waiting for the writer");
  written.seconds.to_close = since(start);
  if (status != 0) throw std::runtime_error("the writer failed");
  sync(path);
  written.seconds.to_disk = since(start);
  std::filesystem::remove(path);
  return written;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

int run(const Options& options) {
  const Invocation invocation;
  const int invocations =
      std::max(1, static_cast<int>(options.gigabytes * 1e9 / static_cast<double>(invocation.bytes()) + 0.5));
  const double gigabytes = 1e-9 * static_cast<double>(invocation.bytes()) * invocations;
  // Makes this process the parent of the writer, which is orphaned when its own parent has ended.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const std::string plain_path = options.folder + "/msda-writer-bench.bin",
                    path = options.folder + "/msda-writer-bench.h5";
  fmt::print("{} invocations, {:.2f} GB, in {}; GB/s\n", invocations, gigabytes, options.folder);
  fmt::print("{:>5} {:>8} {:>8} {:>6} {:>12} {:>12} {:>6}   writer: user s, system s, page faults\n", "round",
             "write(2)", "capture", "ratio", "write, fsync", "capture, fsync", "ratio");
  std::vector<double> plain[2], capture[2], ratios[2];
  for (int round = 0; round < options.rounds; ++round) {
    Seconds plainly;
    Written written;
    const auto first = [&] { plainly = write_plainly(invocation, invocations, plain_path); };
    const auto second = [&] { written = write_capture(options, invocation, invocations, path); };
    round % 2 == 0 ? (first(), second()) : (second(), first());
    const double rates[] = {gigabytes / plainly.to_close, gigabytes / written.seconds.to_close,
                            gigabytes / plainly.to_disk, gigabytes / written.seconds.to_disk};
    for (size_t i = 0; i < 2; ++i) {
      plain[i].push_back(rates[2 * i]);
      capture[i].push_back(rates[2 * i + 1]);
      ratios[i].push_back(rates[2 * i + 1] / rates[2 * i]);
    }
    fmt::print("{:>5} {:8.2f} {:8.2f} {:6.2f} {:12.2f} {:12.2f} {:6.2f}   {:.2f}, {:.2f}, {}\n", round, rates[0],
               rates[1], ratios[0].back(), rates[2], rates[3], ratios[1].back(), seconds_of(written.used.ru_utime),
               seconds_of(written.used.ru_stime), written.used.ru_minflt);
    std::fflush(stdout);
  }
  fmt::print("{:>5} {:8.2f} {:8.2f} {:6.2f} {:12.2f} {:12.2f} {:6.2f}\n", "median", median(plain[0]),
             median(capture[0]), median(ratios[0]), median(plain[1]), median(capture[1]), median(ratios[1]));
  if (median(ratios[0]) >= options.least) return 0;
  fmt::print("slower than {} of plain writing\n", options.least);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("The writer of captures beside plain sequential writing.", "writer_bench");
  options.writer =
      (std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "bin/msda-record").string();
  app.add_option("--gigabytes", options.gigabytes, "To write, a round and a side")->capture_default_str();
  app.add_option("--rounds", options.rounds, "Of each side; the median counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--folder", options.folder, "On the disk to measure")
      ->check(CLI::ExistingDirectory)
      ->capture_default_str();
  app.add_option("--writer", options.writer, "The program msda-record")
      ->check(CLI::ExistingFile)
      ->capture_default_str();
  app.add_option("--ring", options.ring_megabytes, "Shared memory, megabytes")->capture_default_str();
  app.add_option("--least", options.least, "Ratio below which to exit with 1")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (const std::exception& e) {
    fmt::print(stderr, "writer_bench: {}\n", e.what());
    return 1;
  }
}
