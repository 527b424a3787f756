#include "tests/stand_in_driver/trail_kernels.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "tests/stand_in_driver/driver.h"

namespace msda::stand_in {
namespace {

constexpr size_t kMostPieces = 32;
struct Piece {
  uint64_t address, copy, bytes;
};

struct Found {
  uint64_t sums[2] = {}, complement_of_begin = 0, end = 0, changed = 0, units_and_addresses = 0;
};

constexpr uint64_t kUnit = 16, kNumber = 4;
using Unit = std::array<uint64_t, 2>;
Unit unit_at(uint64_t address, uint64_t bytes) {
  Unit unit{};
  std::memcpy(unit.data(), reinterpret_cast<const void*>(address), std::min(kUnit, bytes));
  return unit;
}

// Where a launch changed a piece, by the description.
void find_changes(const Piece& piece, Found& found) {
  const auto* const now = reinterpret_cast<const std::byte*>(piece.address);
  const auto* const before = reinterpret_cast<const std::byte*>(piece.copy);
  for (uint64_t at = 0; at < piece.bytes; ++at) {
    if (now[at] == before[at]) continue;
    ++found.changed;
    if (found.end <= at / kUnit * kUnit) ++found.units_and_addresses;
    found.complement_of_begin = std::max(found.complement_of_begin, ~at);
    found.end = at + 1;
  }
}

void digest_changes(const Piece& piece, uint64_t least, uint64_t range, Found& found) {
  const uint64_t begin = found.end == 0 ? 0 : ~found.complement_of_begin / kUnit * kUnit;
  const uint64_t begin_number = ~found.complement_of_begin / kNumber * kNumber;
  for (uint64_t at = begin; at < found.end; at += kUnit) {
    Unit unit = unit_at(piece.address + at, piece.bytes - at);
    for (uint64_t& word : unit) {
      if (word - least >= range) continue;
      word = 1;
      const uint64_t place = at + (&word == unit.data() ? 0 : sizeof word);
      const bool counts = place + sizeof word > begin_number && place < found.end;
      found.units_and_addresses |= uint64_t{counts} << 63;
    }
    auto* const bytes = reinterpret_cast<std::byte*>(unit.data());
    for (uint64_t i = 0; i < kUnit; i += kNumber) {
      if (at + i < begin_number || at + i >= found.end) std::memset(bytes + i, 0, kNumber);
    }
    for (const size_t sum : {0, 1}) found.sums[sum] += digest_term(unit[0], unit[1], at - begin, sum);
  }
}

CUresult changed(const std::byte* bytes) {
  Piece pieces[kMostPieces];
  std::memcpy(pieces, bytes, sizeof pieces);
  Arguments arguments(bytes + sizeof pieces);
  const auto least = arguments.next<uint64_t>(), range = arguments.next<uint64_t>();
  auto* const on_device = arguments.next<uint64_t*>();
  auto* const slot = arguments.next<uint64_t*>();
  const auto sequence = arguments.next<uint64_t>();
  const bool finds = arguments.next<uint32_t>() == 0;
  static_assert(sizeof(Found) == 48);
  if (!reachable(on_device, kMostPieces * 6 + 1)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  for (size_t i = 0; i < kMostPieces && pieces[i].address != 0; ++i) {
    const Piece& piece = pieces[i];
    for (const uint64_t address : {piece.address, piece.copy}) {
      if (!allocated(address, piece.bytes) || address % 16 != 0) return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    Found found;
    std::memcpy(static_cast<void*>(&found), on_device + 6 * i, sizeof found);
    finds ? find_changes(piece, found) : digest_changes(piece, least, range, found);
    std::memcpy(on_device + 6 * i, &found, sizeof found);
  }
  if (finds) return CUDA_SUCCESS;
  std::memcpy(slot + 1, on_device, sizeof(Found) * kMostPieces);
  std::memset(on_device, 0, sizeof(Found) * kMostPieces);
  __atomic_store_n(slot, sequence, __ATOMIC_RELEASE);
  return CUDA_SUCCESS;
}

// Numbers from a first one on.
CUresult fill(const std::byte* bytes) {
  Arguments arguments(bytes);
  auto* const to = arguments.next<int*>();
  const int count = arguments.next<int>(), first = arguments.next<int>();
  if (!reachable(to, count)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  for (int i = 0; i < count; ++i) to[i] = first + i;
  return CUDA_SUCCESS;
}

// An address, and a number behind it.
CUresult link(const std::byte* bytes) {
  Arguments arguments(bytes);
  auto* const to = arguments.next<uint64_t*>();
  const auto address = arguments.next<uint64_t>();
  const int number = arguments.next<int>();
  if (!reachable(to, 2)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  to[0] = address;
  to[1] = static_cast<uint64_t>(number);
  return CUDA_SUCCESS;
}

// The sum of numbers, which a structure describes: padding, how many, padding, where.
CUresult sum_of_structure(const std::byte* bytes) {
  Arguments arguments(bytes);
  auto* const to = arguments.next<int*>();
  arguments.next<uint64_t>();
  const int count = arguments.next<int>();
  const auto* const numbers = arguments.next<const int*>();
  if (!reachable(to, 1) || !reachable(numbers, count)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  *to = 0;
  for (int i = 0; i < count; ++i) *to += numbers[i];
  return CUDA_SUCCESS;
}

// Copies a number; its parameters hold many more words than that needs.
CUresult copy_first(const std::byte* bytes) {
  Arguments arguments(bytes);
  auto* const to = arguments.next<int*>();
  const auto* const from = arguments.next<const int*>();
  if (!reachable(to, 1) || !reachable(from, 1)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  *to = *from;
  return CUDA_SUCCESS;
}

}  // namespace

const std::vector<KernelCode>& trail_kernels() {
  static const std::vector<KernelCode> kernels{
      {"trail_fill", {{0, 8}, {8, 4}, {12, 4}}, fill},
      {"trail_link", {{0, 8}, {8, 8}, {16, 4}}, link},
      {"trail_sum", {{0, 8}, {8, 24}}, sum_of_structure},
      {"trail_copy_wide", {{0, 8}, {8, 8}, {16, 584}}, copy_first},
      {"msda_record_changed", {{0, 768}, {768, 8}, {776, 8}, {784, 8}, {792, 8}, {800, 8}, {808, 4}}, changed}};
  return kernels;
}

}  // namespace msda::stand_in
