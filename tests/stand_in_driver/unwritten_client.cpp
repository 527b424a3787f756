// usage: stand_in_unwritten_client [WORD...]. Launches kernels on memory that somebody wrote, that nobody wrote, or
// that is written in part, and prints the numbers that they leave, a line for each kernel. With words it runs only the
// parts whose name is one of them. A kernel's name begins with the verdict of a survey that poisons memory.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/stand_in_driver/client.h"
#include "tests/stand_in_driver/survey_images.h"

namespace msda::stand_in {
namespace {

constexpr int kCount = 50'000;
constexpr size_t kBytes = sizeof(float) * kCount;

class Program {
 public:
  explicit Program(const Client& client) : client_(client), x_(uploaded()) {}

  // What depends on unwritten memory, and what comes after it.
  void dependent() {
    const CUdeviceptr copy = fresh();
    launch("reads_unwritten_clone", copy, fresh());
    launch("deterministic_of_clone", fresh(), copy);
    launch("reads_unwritten_sum", fresh(1), fresh());
    launch("reads_unwritten_add_to", fresh(), x_);
    const CUdeviceptr changed = fresh();
    launch("reads_unwritten_in_place", changed, changed);
    launch("reads_unwritten_maximum", fresh(), fresh());
    launch("reads_unwritten_times_zero", fresh(), fresh());
    launch("reads_unwritten_index", fresh(), fresh());
    launch("reads_unwritten_if_odd", fresh(), fresh());
  }

  void independent() {
    launch("deterministic_sum", fresh(1), x_);
    launch("deterministic_add_to", set(fresh(), kBytes), x_);
    const CUdeviceptr first_half = fresh();
    client_.check(client_.api().cuMemcpyDtoDAsync_v2(first_half, x_, kBytes / 2, nullptr));
    launch("deterministic_half_used", fresh(), first_half);
    launch("deterministic_vectors", fresh(), x_, kCount - 1);
    launch("deterministic_low_halves", fresh(), x_);
    const CUdeviceptr patterns = fresh();
    launch("deterministic_like_patterns", patterns, x_);
    launch("deterministic_of_patterns", fresh(), patterns);
  }

  // Rows that a kernel does not write, and a sum over all of them.
  void partial() {
    const CUdeviceptr empty = fresh();
    launch("deterministic_packed", empty, x_);
    launch("reads_unwritten_rest", fresh(1), empty);
    const CUdeviceptr zeros = set(fresh(), kBytes);
    launch("deterministic_packed_again", zeros, x_);
    launch("deterministic_after_memset", fresh(1), zeros);
    launch("reads_unwritten_beside_memset", fresh(1), set(fresh(), kBytes / 2));
  }

  void copied() {
    launch("deterministic_after_upload", fresh(1), uploaded());
    const CUdeviceptr copy = fresh();
    client_.check(client_.api().cuMemcpyDtoDAsync_v2(copy, x_, kBytes, nullptr));
    launch("deterministic_after_copy", fresh(1), copy);
    const CUdeviceptr freed = uploaded();
    client_.check(client_.api().cuMemFree_v2(freed));
    launch("reads_unwritten_again", fresh(1), fresh());
  }

  void varying() {
    launch("race_drawn", fresh(), fresh(), kCount, /*is_told=*/false);
    launch("may_vary_seldom", fresh(), x_, kCount, true, kFloatReduction);
  }

  // Twice: the first launch is found to change memory of the host, the second one is not surveyed for that.
  void unsurveyed() {
    void* on_host = nullptr;
    client_.check(client_.api().cuMemHostAlloc(&on_host, sizeof(int), 0));
    for (int i = 0; i < 2; ++i) {
      const CUdeviceptr by_unsurveyed = fresh();
      launch("not_surveyed_on_host", by_unsurveyed, reinterpret_cast<uintptr_t>(on_host));
      launch("deterministic_of_unsurveyed", fresh(), by_unsurveyed);
    }
  }

 private:
  CUdeviceptr fresh(int count = kCount) const { return client_.allocate(sizeof(float) * static_cast<size_t>(count)); }

  CUdeviceptr uploaded() const {
    std::vector<float> x(kCount);
    for (int i = 0; i < kCount; ++i) x[static_cast<size_t>(i)] = 1.0f / static_cast<float>(i + 1);
    return client_.upload(x);
  }

  CUdeviceptr set(CUdeviceptr memory, size_t bytes) const {
    client_.check(client_.api().cuMemsetD8Async(memory, 0, bytes, nullptr));
    return memory;
  }

  void launch(const std::string& kernel, CUdeviceptr to, CUdeviceptr from, int count = kCount, bool is_told = true,
              Code code = kPlain) const {
    const std::string image = image_of(kernel, code, /*has_variable=*/false);
    const CUfunction function = client_.load_image(kernel, image, "data", false);
    const Argument arguments[] = {to, from, count};
    client_.launch({}, function, {4}, {32}, nullptr, arguments);
    client_.wait_for_all();
    if (!is_told) return;
    CUdeviceptr base = 0;
    size_t bytes = 0;
    client_.check(client_.api().cuMemGetAddressRange_v2(&base, &bytes, to));
    uint64_t digest = 0;
    for (const auto word : client_.download<uint32_t>(to, bytes / sizeof(uint32_t))) digest = digest * 1000003 + word;
    std::printf("%s %016llx\n", kernel.c_str(), static_cast<unsigned long long>(digest));
  }

  const Client& client_;
  CUdeviceptr x_;
};

}  // namespace
}  // namespace msda::stand_in

int main(int argc, char** argv) {
  using msda::stand_in::Program;
  constexpr std::pair<std::string_view, void (Program::*)()> kParts[] = {
      {"dependent", &Program::dependent}, {"independent", &Program::independent}, {"partial", &Program::partial},
      {"copied", &Program::copied},       {"varying", &Program::varying},         {"unsurveyed", &Program::unsurveyed}};
  try {
    const msda::stand_in::Client client(msda::stand_in::Via::kProcAddress);
    Program program(client);
    const std::vector<std::string_view> words(argv + 1, argv + argc);
    for (const auto& [name, part] : kParts) {
      if (words.empty() || std::ranges::find(words, name) != words.end()) (program.*part)();
    }
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "stand_in_unwritten_client: %s\n", e.what());
    return 1;
  }
}
