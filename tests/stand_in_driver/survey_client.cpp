// usage: stand_in_survey_client [WORD...]. Launches kernels that vary, and kernels that do with memory what must not
// happen twice, and prints the numbers that they leave, a line for each kernel. With words it launches only kernels
// whose name holds one of them.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/stand_in_driver/client.h"
#include "tests/stand_in_driver/survey_images.h"

namespace msda::stand_in {

struct Launching {
  virtual ~Launching() = default;
  virtual void launch() const = 0;
};

}  // namespace msda::stand_in

// As PyTorch's functions are called on the way to a launch.
namespace at::_ops {
struct sum {
  __attribute__((noinline, visibility("default"))) static void call(const msda::stand_in::Launching& work) {
    work.launch();
    asm volatile("");  // no tail call
  }
};
}  // namespace at::_ops
namespace torch::autograd::generated {
struct SumBackward0 {
  __attribute__((noinline, visibility("default"))) void apply(const msda::stand_in::Launching& work) const {
    at::_ops::sum::call(work);
    asm volatile("");
  }
};
}  // namespace torch::autograd::generated

namespace msda::stand_in {
namespace {

// Additions of float32, and one of a vector of two, or one whose result is used.
constexpr uint64_t kVectors[] = {kFloatReduction[0], kFloatReduction[1], 0x00000002040079a6, 0x004fe2000c10f584};
constexpr uint64_t kUsed[] = {kFloatReduction[0], kFloatReduction[1], 0x00000007040579a3, 0x004ea800081ef3c4};

// And one of an integer, whose result is used, as for a ticket.
constexpr uint64_t kTicket[] = {kFloatReduction[0], kFloatReduction[1], 0x00000007040579a8, 0x004ea800081ee1c4};

// With a variable, so that no launch of it is kept.
constexpr uint64_t kWithVariable[] = {kFloatReduction[0], kFloatReduction[1], kReadsAddress[0], kReadsAddress[1]};

class Program {
 public:
  Program(const Client& client, std::vector<std::string_view> words) : client_(client), words_(std::move(words)) {}

  void run() {
    const int kCount = 1000, kPointers = 2;
    std::vector<float> x(250'000);  // a megabyte, of which kernels use the beginning
    for (int i = 0; i < kCount; ++i) x[static_cast<size_t>(i)] = 1.0f / static_cast<float>(i + 1);
    const CUdeviceptr values = client_.upload(x);
    const CUdeviceptr numbers = client_.upload(std::vector<int>{10, 20}), result = client_.upload(std::vector<int>{0});
    const CUdeviceptr by_host = client_.upload(std::vector<int>{50, 60});
    const CUdeviceptr others = client_.upload(std::vector<int>{30, 40});
    const CUdeviceptr table = client_.upload(std::vector<CUdeviceptr>{numbers, numbers + sizeof(int)});
    const CUdeviceptr hidden = client_.upload(std::vector<CUdeviceptr>{~others, ~(others + sizeof(int))});
    const CUdeviceptr read_from_host = client_.upload(std::vector<int>{0});
    void* on_host = nullptr;
    client_.check(client_.api().cuMemHostAlloc(&on_host, sizeof(int), 0));
    *static_cast<int*>(on_host) = 0;

    // A table of pointers to numbers beside itself.
    const CUdeviceptr itself = client_.allocate(4 * sizeof(CUdeviceptr));
    const CUdeviceptr to_itself[] = {itself + 2 * sizeof itself, itself + 3 * sizeof itself, 0, 0};
    client_.check(client_.api().cuMemcpyHtoD_v2(itself, to_itself, sizeof to_itself));
    const CUdeviceptr later = client_.upload(std::vector<int>{70, 80});
    const CUdeviceptr later_table = client_.upload(std::vector<CUdeviceptr>{later, later + sizeof(int)});
    const Argument twice[] = {values, kCount}, follow[] = {table, kPointers};
    void* host_table = nullptr;
    client_.check(client_.api().cuMemHostAlloc(&host_table, 2 * sizeof(CUdeviceptr), 0));
    static_cast<CUdeviceptr*>(host_table)[0] = by_host;
    static_cast<CUdeviceptr*>(host_table)[1] = by_host + sizeof(int);
    const Argument follow_on_host[] = {host_table, kPointers};
    const Argument follow_hidden[] = {hidden, kPointers};
    const Argument count[] = {result}, host[] = {on_host}, read[] = {read_from_host, on_host};
    launch("survey_twice", 3, kPlain, twice);
    add("survey_drawn_sum", kFloatReduction, values, kCount);
    add("survey_fixed_sum", kFloatReduction, values, kCount);
    add("survey_locked_sum", kCompareAndSwap, values, kCount);
    add("survey_torn_sum", kPlain, values, kCount);
    add("survey_torn_later", kPlain, values, kCount);
    add("survey_torn_atomics", kFloatReduction, values, kCount);
    scatter("survey_scattered_sums");
    scatter("survey_wrong_sums", kFloatReduction, -1);
    scatter("survey_vector_sums", kVectors);
    scatter("survey_used_sums", kUsed);
    scatter("survey_ticket_sums", kTicket);
    scatter("survey_numbered_sums", kWithVariable, 1, /*times=*/1);
    launch("survey_follow_table", 3, kPlain, follow);
    launch("survey_follow_host_table", 3, kPlain, follow_on_host);
    launch("survey_follow_hidden", 3, kPlain, follow_hidden);
    const Argument follow_itself[] = {itself, kPointers}, follow_later[] = {later_table, kPointers};
    launch("survey_follow_later", 3, kPlain, follow_itself);
    launch("survey_follow_later", 3, kPlain, follow_later);
    launch("survey_count", 4, kReadsAddress, count, /*has_variable=*/true);
    launch("survey_count_on_host", 2, kPlain, host);
    launch("survey_read_host", 2, kPlain, read);
    if (!words_.empty() && words_[0] == "number") {
      launch("survey_number", 3, kPlain, count);
      std::printf("number %d\n", client_.download<int>(result, 1)[0]);
    }
    if (!words_.empty() && words_[0] == "managed") count_in_managed_memory(values, kCount);
    if (!words_.empty() && words_[0] == "other_once") add("survey_other_once", kFloatReduction, values, kCount);
    if (!words_.empty() && words_[0] == "crowded") {
      add("survey_crowded_sum", kCompareAndSwap, values, kCount);
      add("survey_crowded_torn", kPlain, values, kCount);
      add("survey_crowded_rare", kCompareAndSwap, values, kCount);
    }
    std::printf("twice %g %g\n", value(values, 0), value(values, kCount - 1));
    const auto followed = client_.download<int>(numbers, 2);
    std::printf("follow_table %d %d\n", followed[0], followed[1]);
    const auto followed_by_host = client_.download<int>(by_host, 2);
    std::printf("follow_host_table %d %d\n", followed_by_host[0], followed_by_host[1]);
    const auto followed_later = client_.download<int>(later, 2);
    std::printf("follow_later %d %d\n", followed_later[0], followed_later[1]);
    const auto hidden_ones = client_.download<int>(others, 2);
    std::printf("follow_hidden %d %d\n", hidden_ones[0], hidden_ones[1]);
    std::printf("count %d\n", client_.download<int>(result, 1)[0]);
    std::printf("read_host %d\n", client_.download<int>(read_from_host, 1)[0]);
    std::printf("count_on_host %d\n", *static_cast<int*>(on_host));
  }

 private:
  double value(CUdeviceptr pointer, int index) const {
    return static_cast<double>(client_.download<float>(pointer + static_cast<size_t>(index) * sizeof(float), 1)[0]);
  }

  void add(const std::string& kernel, Code code, const CUdeviceptr& values, const int& count) const {
    const CUdeviceptr sum = client_.upload(std::vector<float>{0});
    const Argument arguments[] = {sum, values, count};
    const Launches work(*this, kernel, code, arguments);
    using torch::autograd::generated::SumBackward0;
    void (SumBackward0::*volatile apply)(const Launching&) const = &SumBackward0::apply;  // not a copy of it
    (SumBackward0().*apply)(work);
    std::printf("%s %.2f\n", kernel.c_str(), value(sum, 0));
  }

  // The host changes the sum, once the third launch has ended, without a call of the driver's; then comes another one.
  void count_in_managed_memory(CUdeviceptr values, int count) const {
    constexpr unsigned kGlobal = 1;  // CU_MEM_ATTACH_GLOBAL
    CUdeviceptr sum = 0;
    client_.check(client_.api().cuMemAllocManaged(&sum, sizeof(float), kGlobal));
    float* const on_host = reinterpret_cast<float*>(sum);
    *on_host = 0;
    const Argument arguments[] = {sum, values, count};
    const std::string kernel = "survey_other_once";
    const CUfunction function = client_.load_image(kernel, image_of(kernel, kFloatReduction, false), "data", false);
    for (int i = 0; i < 4; ++i) {
      if (i == 3) *on_host += 1000;
      client_.launch({}, function, {4}, {32}, nullptr, arguments);
    }
    std::printf("managed %.2f\n", static_cast<double>(*on_host));
  }

  // Sums of numbers of both signs: of many the first 23 are added to, and every second one is 0 before. With the sign
  // -1 the greatest addend is positive, otherwise negative.
  void scatter(const std::string& kernel, Code code = kFloatReduction, int sign = 1, int times = 5) const {
    const int kCount = 2000, kSums = 700'000, kAddedTo = 23;
    std::vector<float> x, before;
    std::vector<int> indices;
    for (int i = 0; i < kCount; ++i) {
      x.push_back(static_cast<float>(sign * (i * 37 % 101 - 60)) / 7.0f);
      indices.push_back(i * i % kAddedTo);
    }
    for (int i = 0; i < kSums; ++i) before.push_back(i % 2 == 0 ? 0.0f : static_cast<float>(i) * 8.0f);
    const CUdeviceptr sums = client_.upload(before), twice = client_.upload(std::vector<float>(x.size()));
    const CUdeviceptr values = client_.upload(x), places = client_.upload(indices);
    const Argument arguments[] = {sums, twice, values, places, kCount};
    launch(kernel, times, code, arguments, /*has_variable=*/code.data() == kWithVariable);
    std::printf("%s %.2f %.2f\n", kernel.c_str(), value(twice, 0), value(twice, 1));
  }

  void launch(const std::string& kernel, int times, Code code, std::span<const Argument> arguments,
              bool has_variable = false) const {
    const bool is_named = std::ranges::any_of(words_, [&](auto word) { return kernel.find(word) != kernel.npos; });
    if (!words_.empty() && !is_named) return;
    const CUfunction function = client_.load_image(kernel, image_of(kernel, code, has_variable), "data", false);
    const bool is_slow = !words_.empty() && words_[0] == "slow";
    if (!words_.empty() && words_[0] == "often") times = 20;
    for (int i = 0; i < times; ++i) {
      // Longer than the recorder waits before it reports again what it knows.
      if (is_slow && i + 1 == times) std::this_thread::sleep_for(std::chrono::milliseconds(1100));
      client_.launch({}, function, {4}, {32}, nullptr, arguments);
    }
    client_.wait_for_all();
  }

  struct Launches : Launching {
    const Program& program;
    const std::string& kernel;
    Code code;
    std::span<const Argument> arguments;
    Launches(const Program& given, const std::string& name, Code its_code, std::span<const Argument> all)
        : program(given), kernel(name), code(its_code), arguments(all) {}
    void launch() const override { program.launch(kernel, 5, code, arguments); }
  };

  const Client& client_;
  std::vector<std::string_view> words_;
};

}  // namespace
}  // namespace msda::stand_in

int main(int argc, char** argv) {
  try {
    const msda::stand_in::Client client(msda::stand_in::Via::kProcAddress);
    msda::stand_in::Program(client, {argv + 1, argv + argc}).run();
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "stand_in_survey_client: %s\n", e.what());
    return 1;
  }
}
