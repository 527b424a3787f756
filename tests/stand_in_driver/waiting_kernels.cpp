#include "tests/stand_in_driver/waiting_kernels.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/stand_in_driver/driver.h"

namespace msda::stand_in {
namespace {

using std::chrono::milliseconds, std::chrono::seconds;

// Waits until the flag is not 0, then ++*result. A flag that nobody ever sets is a mistake of the test.
CUresult await_flag(const std::byte* bytes) {
  Arguments arguments(bytes);
  int *const flag = arguments.next<int*>(), *const result = arguments.next<int*>();
  if (!reachable(flag, 1) || !reachable(result, 1)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  const auto end = std::chrono::steady_clock::now() + seconds(60);
  while (std::atomic_ref(*flag).load() == 0) {
    if (std::chrono::steady_clock::now() > end) return CUDA_ERROR_LAUNCH_TIMEOUT;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  ++*result;
  return CUDA_SUCCESS;
}

CUresult set_flag(const std::byte* bytes) {
  int* const flag = Arguments(bytes).next<int*>();
  if (!reachable(flag, 1)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  std::atomic_ref(*flag).store(1);
  return CUDA_SUCCESS;
}

// Works for so many milliseconds, then adds 1 to the number. Stores it again and again, as a kernel that works on its
// results does.
CUresult take_long(const std::byte* bytes) {
  Arguments arguments(bytes);
  int* const number = arguments.next<int*>();
  const int time = arguments.next<int>();
  if (!reachable(number, 1)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  const int before = *number;
  const auto end = std::chrono::steady_clock::now() + milliseconds(time);
  while (std::chrono::steady_clock::now() < end) {
    if (!reachable(number, 1)) return CUDA_ERROR_ILLEGAL_ADDRESS;
    std::atomic_ref(*number).store(before);
    std::this_thread::sleep_for(milliseconds(1));
  }
  *number = before + 1;
  return CUDA_SUCCESS;
}

}  // namespace

const std::vector<KernelCode>& waiting_kernels() {
  static const std::vector<KernelCode> kernels = {{"survey_await", {{0, 8}, {8, 8}}, await_flag},
                                                  {"survey_raise", {{0, 8}}, set_flag},
                                                  {"survey_take_long", {{0, 8}, {8, 4}}, take_long}};
  return kernels;
}

}  // namespace msda::stand_in
