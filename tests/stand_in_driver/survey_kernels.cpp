#include "tests/stand_in_driver/survey_kernels.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <random>

#include "tests/stand_in_driver/driver.h"

namespace msda::stand_in {
namespace {

// x *= 2, in place.
CUresult twice(const std::byte* bytes) {
  Arguments arguments(bytes);
  auto* const x = arguments.next<float*>();
  const int count = arguments.next<int>();
  if (!reachable(x, count)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  for (int i = 0; i < count; ++i) x[i] *= 2;
  return CUDA_SUCCESS;
}

constexpr char kDrawnSum[] = "survey_drawn_sum", kOtherOnce[] = "survey_other_once";
const std::vector<Parameter> kLayoutOfSum{{0, 8}, {8, 8}, {16, 4}};

// How a kernel adds: in an order that is drawn anew for each launch, or as they come; or as one of its twins does it,
// whose order is drawn, too. kWrong is no order's: each sum is a little off. kNumbered also shows how many launches of
// it there were, the recorder's included, but for its twins.
enum class Adding { kDrawn, kFixed, kWrong, kNumbered, kIntegers, kCount, kNothing, kGreatest, kLeast };

std::mt19937& draws() {
  static thread_local std::mt19937 random(1);
  return random;
}

float added(float* to, float term, Adding adding) {
  const auto bits = std::bit_cast<uint32_t>(*to), of_term = std::bit_cast<uint32_t>(term);
  const auto each = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(to) >> 32);
  switch (adding) {
    case Adding::kDrawn:
    case Adding::kFixed:
    case Adding::kNumbered:
      return *to + term;
    case Adding::kWrong:
      return *to + term * (draws()() % 2 == 0 ? 1.0f : 1.01f);
    case Adding::kIntegers:
      return std::bit_cast<float>(bits + of_term);
    case Adding::kCount:
      return std::bit_cast<float>(bits + each);
    case Adding::kNothing:
      return *to;
    case Adding::kGreatest:
      return static_cast<int32_t>(bits) < static_cast<int32_t>(of_term) ? term : *to;
    case Adding::kLeast:
      return bits < of_term ? term : *to;
  }
  return *to;
}

// sum += each x.
template <Adding adding>
CUresult sum(const std::byte* bytes) {
  Arguments arguments(bytes);
  auto* const sum = arguments.next<float*>();
  const auto* const x = arguments.next<const float*>();
  const int count = arguments.next<int>();
  if (!reachable(sum, 1) || !reachable(x, count)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  std::vector<float> terms(x, x + count);
  if (adding != Adding::kFixed) std::ranges::shuffle(terms, draws());
  for (const float term : terms) *sum = added(sum, term, adding);
  return CUDA_SUCCESS;
}

// The same, in one order the first times: two launches, each with two extra ones.
CUresult sum_torn_later(const std::byte* bytes) {
  constexpr int kTimes = 6;
  static std::atomic<int> launches{0};
  return ++launches <= kTimes ? sum<Adding::kFixed>(bytes) : sum<Adding::kDrawn>(bytes);
}

// Always the same, but in both extra launches of the program's third one.
CUresult sum_other_once(const std::byte* bytes) {
  static std::atomic<int> launches{0};
  const int number = ++launches;
  const CUresult result = sum<Adding::kFixed>(bytes);
  if (result == CUDA_SUCCESS && (number == 8 || number == 9)) *Arguments(bytes).next<float*>() += 1;
  return result;
}

// The recorder's kernel that occupies a part of the device was launched, and none that it may disturb was since.
std::atomic<bool> crowded{false};

CUresult spin(const std::byte*) {
  crowded = true;
  return CUDA_SUCCESS;
}

// 1 is missing beside other work; and, each so many launches, without.
template <int often>
CUresult sum_crowded(const std::byte* bytes) {
  static std::atomic<int> launches{0};
  const bool is_crowded = crowded.exchange(false), is_rare = ++launches % often == 0;
  const CUresult result = sum<Adding::kFixed>(bytes);
  if (result == CUDA_SUCCESS && (is_crowded || is_rare)) *Arguments(bytes).next<float*>() -= 1;
  return result;
}

constexpr const char* kScatteredSums[] = {"survey_scattered_sums", "survey_wrong_sums",    "survey_vector_sums",
                                          "survey_used_sums",      "survey_numbered_sums", "survey_ticket_sums"};
const std::vector<Parameter> kLayoutOfSums{{0, 8}, {8, 8}, {16, 8}, {24, 8}, {32, 4}};

// sums[index] += x, and twice[i] = 2 * x, for each of them.
template <Adding adding>
CUresult scattered_sums(const std::byte* bytes) {
  Arguments arguments(bytes);
  auto *const sums = arguments.next<float*>(), *const twice = arguments.next<float*>();
  const auto* const x = arguments.next<const float*>();
  const auto* const indices = arguments.next<const int*>();
  const int count = arguments.next<int>();
  if (!reachable(twice, count) || !reachable(x, count) || !reachable(indices, count)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  std::vector<int> order(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) order[static_cast<size_t>(i)] = i;
  std::ranges::shuffle(order, draws());
  for (const int i : order) {
    float* const to = sums + indices[i];
    if (!reachable(to, 1)) return CUDA_ERROR_ILLEGAL_ADDRESS;
    *to = added(to, x[i], adding);
    twice[i] = 2 * x[i];
  }
  static std::atomic<int> launches{0};
  if (adding == Adding::kNumbered) twice[0] = static_cast<float>(++launches);
  return CUDA_SUCCESS;
}

// Adds 1 to what each pointer of a table in device memory points to; the table has them with these bits changed.
template <uint64_t mask>
CUresult follow_table(const std::byte* bytes) {
  Arguments arguments(bytes);
  const auto* const table = arguments.next<const uint64_t*>();
  const int count = arguments.next<int>();
  if (!reachable(table, count)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  for (int i = 0; i < count; ++i) {
    int* const number = reinterpret_cast<int*>(table[i] ^ mask);
    if (!reachable(number, 1)) return CUDA_ERROR_ILLEGAL_ADDRESS;
    ++*number;
  }
  return CUDA_SUCCESS;
}

// Counts its launches in a variable, and returns the count.
CUresult count_launches(const std::byte* bytes) {
  int* const launches = reinterpret_cast<int*>(counter());
  int* const result = Arguments(bytes).next<int*>();
  if (!reachable(result, 1)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  *result = ++*launches;
  return CUDA_SUCCESS;
}

// Returns how many launches of it there were, the recorder's included: no memory of the device has that number.
CUresult number_launches(const std::byte* bytes) {
  static std::atomic<int> launches{0};
  int* const result = Arguments(bytes).next<int*>();
  if (!reachable(result, 1)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  *result = ++launches;
  return CUDA_SUCCESS;
}

CUresult store_seven(const std::byte* bytes) {
  int* const result = Arguments(bytes).next<int*>();
  if (!reachable(result, 1)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  *result = 7;
  return CUDA_SUCCESS;
}

// Adds 1 to a number in memory of the host.
CUresult count_on_host(const std::byte* bytes) {
  int* const count = Arguments(bytes).next<int*>();
  if (!reachable(count, 1)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  ++*count;
  return CUDA_SUCCESS;
}

// Copies that number.
CUresult read_host(const std::byte* bytes) {
  Arguments arguments(bytes);
  int* const to = arguments.next<int*>();
  const int* const from = arguments.next<const int*>();
  if (!reachable(to, 1) || !reachable(from, 1)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  *to = *from;
  return CUDA_SUCCESS;
}

// The recorder's copies, and its search for pointers, by its description.
CUresult save(const std::byte* bytes) {
  struct Piece {
    uint64_t address, copy, bytes;
  } pieces[32];
  std::memcpy(pieces, bytes, sizeof pieces);
  Arguments arguments(bytes + sizeof pieces);
  const auto least = arguments.next<uint64_t>(), range = arguments.next<uint64_t>();
  auto* const found = arguments.next<uint64_t*>();
  const auto known = arguments.next<uint64_t>();
  auto* const any = arguments.next<uint32_t*>();
  constexpr uint64_t kUnit = 16, kMost = 4095;
  if (!reachable(found, 1 + kMost)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  for (const Piece& piece : pieces) {
    if (piece.bytes == 0) continue;
    for (const uint64_t address : {piece.address, piece.copy}) {
      if (!allocated(address, piece.bytes) || address % kUnit != 0) return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    const auto* const words = reinterpret_cast<const uint64_t*>(piece.address);
    std::memcpy(reinterpret_cast<void*>(piece.copy), words, piece.bytes);
    for (uint64_t i = 0; i < piece.bytes / 8; ++i) {
      const uint64_t word = words[i];
      const bool is_known =
          std::ranges::any_of(pieces, [&](auto& entry) { return word - entry.address < entry.bytes; });
      if (word - least >= range || is_known) continue;
      *any = 1;
      if (const uint64_t number = ++found[0] - known; number <= kMost) found[number] = word;
    }
  }
  return CUDA_SUCCESS;
}

struct SettledPiece {
  std::byte *memory, *before, *after;
  unsigned char* flags;
  uint64_t bytes;
};
using SettledPieces = SettledPiece[32];

// Keeps and compares what launches changed, by its description.
CUresult settle(const std::byte* bytes) {
  SettledPieces pieces;
  std::memcpy(pieces, bytes, sizeof pieces);
  Arguments arguments(bytes + sizeof pieces);
  const auto mode = arguments.next<uint32_t>();
  auto* const count = arguments.next<uint64_t*>();
  constexpr uint64_t kUnit = 16;
  if (!reachable(count, 2)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  count[1] = 0;
  for (size_t i = 0; i < std::size(pieces) && pieces[i].bytes > 0; ++i) {
    const auto& [memory, before, after, flags, size] = pieces[i];
    for (const std::byte* entry : {memory, before, after}) {
      const auto address = reinterpret_cast<uintptr_t>(entry);
      if (!allocated(address, size) || address % kUnit != 0) return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    if (!reachable(flags, static_cast<int>(size / kUnit + 1))) return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (uint64_t at = 0; at < size; at += kUnit) {
      const uint64_t some = std::min(kUnit, size - at);
      if (mode == 0) {
        flags[at / kUnit] = std::memcmp(memory + at, before + at, some) != 0;
        if (flags[at / kUnit]) std::memcpy(after + at, memory + at, some);
        std::memcpy(memory + at, before + at, some);
        continue;
      }
      const bool is_end = at + kUnit > size;  // always kept
      if (mode == 1 && !flags[at / kUnit] && !is_end) continue;
      const std::byte* const expected = flags[at / kUnit] ? after + at : before + at;
      for (uint64_t word = 0; word < some; word += 4) {
        *count += std::memcmp(memory + at + word, expected + word, std::min<uint64_t>(4, some - word)) != 0;
      }
      std::memcpy(memory + at, mode == 1 ? before + at : expected, some);
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace

namespace {

// What sm_90's reduction of integers does, which is in the place of one of float32.
Adding adding_of(uint64_t low, uint64_t high) {
  const auto address = low >> 24 & 0xFF, data = low >> 32 & 0xFF, type = high >> 9 & 7, operation = high >> 23 & 7;
  constexpr uint64_t kAdd = 0, kMax = 2, kSigned = 1, kZero = 0xFF;
  if (operation == kMax) return type == kSigned ? Adding::kGreatest : Adding::kLeast;
  if (operation != kAdd || data == kZero) return Adding::kNothing;
  return data == address + 1 ? Adding::kCount : Adding::kIntegers;
}

template <Adding adding>
const KernelCode* twin_code(const std::string& name) {
  static const auto* const codes = [] {  // never destroyed, as others
    auto* const all =
        new std::vector<KernelCode>{{kDrawnSum, kLayoutOfSum, sum<adding>}, {kOtherOnce, kLayoutOfSum, sum<adding>}};
    for (const char* scattered_sum : kScatteredSums)
      all->push_back({scattered_sum, kLayoutOfSums, scattered_sums<adding>});
    return all;
  }();
  const auto found = std::ranges::find(*codes, name, &KernelCode::name);
  return found != codes->end() ? &*found : nullptr;
}

}  // namespace

const KernelCode* as_written(const KernelCode* kernel, const char* code, size_t bytes) {
  uint64_t words[2];
  if (kernel == nullptr || bytes < sizeof words || twin_code<Adding::kIntegers>(kernel->name) == nullptr) return kernel;
  std::memcpy(words, code, sizeof words);
  if ((words[0] & 0xFFF) != kIntegerReduction) return kernel;
  switch (adding_of(words[0], words[1])) {
    case Adding::kCount:
      return twin_code<Adding::kCount>(kernel->name);
    case Adding::kNothing:
      return twin_code<Adding::kNothing>(kernel->name);
    case Adding::kGreatest:
      return twin_code<Adding::kGreatest>(kernel->name);
    case Adding::kLeast:
      return twin_code<Adding::kLeast>(kernel->name);
    default:
      return twin_code<Adding::kIntegers>(kernel->name);
  }
}

CUdeviceptr counter() {
  constexpr CUdeviceptr kOdd = 4;  // variables lie anywhere
  static const CUdeviceptr memory = allocate_variable(32) + kOdd;
  return memory;
}

const std::vector<KernelCode>& survey_kernels() {
  static const std::vector<KernelCode> kernels = {
      {"survey_twice", {{0, 8}, {8, 4}}, twice},
      {kDrawnSum, kLayoutOfSum, sum<Adding::kDrawn>},
      {"survey_fixed_sum", kLayoutOfSum, sum<Adding::kFixed>},
      {"survey_locked_sum", kLayoutOfSum, sum<Adding::kDrawn>},
      {"survey_torn_sum", kLayoutOfSum, sum<Adding::kDrawn>},
      {"survey_torn_later", kLayoutOfSum, sum_torn_later},
      {"survey_torn_atomics", kLayoutOfSum, sum<Adding::kDrawn>},
      {kOtherOnce, kLayoutOfSum, sum_other_once},
      {"survey_crowded_sum", kLayoutOfSum, sum_crowded<1000>},
      {"survey_crowded_torn", kLayoutOfSum, sum_crowded<1000>},
      {"survey_crowded_rare", kLayoutOfSum, sum_crowded<17>},
      {kScatteredSums[0], kLayoutOfSums, scattered_sums<Adding::kDrawn>},
      {kScatteredSums[1], kLayoutOfSums, scattered_sums<Adding::kWrong>},
      {kScatteredSums[2], kLayoutOfSums, scattered_sums<Adding::kDrawn>},
      {kScatteredSums[3], kLayoutOfSums, scattered_sums<Adding::kDrawn>},
      {kScatteredSums[4], kLayoutOfSums, scattered_sums<Adding::kNumbered>},
      {kScatteredSums[5], kLayoutOfSums, scattered_sums<Adding::kDrawn>},
      {"survey_follow_table", {{0, 8}, {8, 4}}, follow_table<0>},
      {"survey_follow_host_table", {{0, 8}, {8, 4}}, follow_table<0>},
      {"survey_follow_later", {{0, 8}, {8, 4}}, follow_table<0>},
      {"survey_follow_hidden", {{0, 8}, {8, 4}}, follow_table<~uint64_t{0}>},
      {"survey_count", {{0, 8}}, count_launches},
      {"survey_number", {{0, 8}}, number_launches},
      {"survey_steady", {{0, 8}}, store_seven},
      {"survey_count_on_host", {{0, 8}}, count_on_host},
      {"survey_read_host", {{0, 8}, {8, 8}}, read_host},
      {"msda_record_spin", {{0, 8}, {8, 4}, {16, 8}}, spin},
      {"msda_record_save", {{0, 768}, {768, 8}, {776, 8}, {784, 8}, {792, 8}, {800, 8}}, save},
      {"msda_record_settle",
       {{0, sizeof(SettledPieces)}, {sizeof(SettledPieces), 4}, {sizeof(SettledPieces) + 8, 8}},
       settle}};
  return kernels;
}

}  // namespace msda::stand_in
