#include "tests/stand_in_driver/evidence_kernel.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "tests/stand_in_driver/driver.h"

namespace msda::stand_in {
namespace {

struct EvidencePiece {
  std::byte *memory, *initial, *counts, *magnitudes, *before, *after;
  unsigned char* flags;
  uint64_t bytes;
};
using EvidencePieces = EvidencePiece[16];

struct EvidenceNumbers {
  uint64_t addresses, additions, most, others, differing, exceeding, unbounded, elsewhere, difference, share, magnitude;
};

struct Arithmetic {
  double unit, greatest, flushed;
};

template <class T>
T value_at(const std::byte* memory, uint64_t place) {
  T value;
  std::memcpy(&value, memory + place, sizeof value);
  return value;
}

// How often the number goes into the difference, modulo 2^32, by trying.
uint32_t quotient(uint32_t difference, uint32_t each) {
  constexpr uint32_t kMost = 1 << 24;
  uint32_t count = 0;
  for (uint32_t sum = 0; sum != difference && count <= kMost; ++count) sum += each;
  return count <= kMost ? count : 0;
}

template <class T>
void count(const EvidencePiece& piece, uint64_t place, EvidenceNumbers& numbers) {
  uint32_t words[2][sizeof(T) / 4];
  std::memcpy(words[0], piece.initial + place, sizeof(T));
  std::memcpy(words[1], piece.memory + place, sizeof(T));
  if (std::memcmp(words[0], words[1], sizeof(T)) == 0) return;
  const auto each = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(piece.memory + place) >> 32);
  const bool is_added = sizeof(T) == 4 || words[0][sizeof(T) / 4 - 1] == words[1][sizeof(T) / 4 - 1];
  const uint32_t additions = is_added ? quotient(words[1][0] - words[0][0], each) : 0;
  if (additions == 0) {
    ++numbers.others;
    return;
  }
  std::memcpy(piece.counts + place, &additions, sizeof additions);
  ++numbers.addresses;
  numbers.additions += additions;
  numbers.most = std::max<uint64_t>(numbers.most, additions);
}

template <class T>
void compare(const EvidencePiece& piece, uint64_t place, const Arithmetic& type, EvidenceNumbers& numbers) {
  const bool is_kept = place / 16 * 16 + 16 > piece.bytes || piece.flags[place / 16] != 0;
  const T own = value_at<T>(is_kept ? piece.after : piece.before, place), another = value_at<T>(piece.memory, place);
  const bool differs = std::memcmp(&own, &another, sizeof own) != 0;
  const auto additions = static_cast<double>(value_at<uint32_t>(piece.counts, place));
  if (additions == 0) {
    numbers.elsewhere += differs;
    return;
  }
  const auto magnitude = static_cast<double>(value_at<T>(piece.magnitudes, place));
  const double initial = std::abs(static_cast<double>(value_at<T>(piece.initial, place)));
  numbers.magnitude = std::max(numbers.magnitude, std::bit_cast<uint64_t>(magnitude));
  if (!differs) return;
  ++numbers.differing;
  double rounds = initial != 0 ? additions : additions - 1;
  if (rounds == 1) rounds = 0;
  const double sum = initial + additions * magnitude, error = rounds * type.unit * sum;
  double bound = 2 * error + (rounds > 0 ? (additions + 1) * type.flushed : 0);
  const double difference = std::abs(static_cast<double>(own) - static_cast<double>(another));
  if (!(sum + error <= type.greatest)) {
    bound = INFINITY;
    ++numbers.unbounded;
  } else {
    numbers.exceeding += !(difference <= bound * (1 + 0x1p-20));
    if (difference > 0) numbers.share = std::max(numbers.share, std::bit_cast<uint64_t>(difference / bound));
  }
  if (!std::isfinite(difference)) return;
  const uint64_t key = std::bit_cast<uint64_t>(difference) >> 32 << 32 | std::bit_cast<uint64_t>(bound) >> 32;
  numbers.difference = std::max(numbers.difference, key);
}

template <class T>
CUresult run(const EvidencePieces& pieces, uint32_t mode, const Arithmetic& type, EvidenceNumbers& numbers) {
  for (const EvidencePiece& piece : pieces) {
    if (piece.bytes == 0) continue;
    for (const std::byte* entry :
         {piece.memory, piece.initial, piece.counts, piece.magnitudes, piece.before, piece.after}) {
      const auto address = reinterpret_cast<uintptr_t>(entry);
      if (!allocated(address, piece.bytes) || address % 16 != 0) return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    if (!reachable(piece.flags, static_cast<int>(piece.bytes / 16 + 1))) return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (uint64_t place = 0; place + sizeof(T) <= piece.bytes; place += sizeof(T)) {
      const bool is_added_to = value_at<uint32_t>(piece.counts, place) != 0;
      if (mode == 0) count<T>(piece, place, numbers);
      if (mode == 1 && is_added_to) std::memset(piece.memory + place, 0, sizeof(T));
      if (mode == 2 && is_added_to) {
        const T magnitude = std::max(value_at<T>(piece.magnitudes, place), std::abs(value_at<T>(piece.memory, place)));
        std::memcpy(piece.magnitudes + place, &magnitude, sizeof magnitude);
      }
      if (mode == 3) compare<T>(piece, place, type, numbers);
    }
  }
  return CUDA_SUCCESS;
}

CUresult evidence(const std::byte* bytes) {
  EvidencePieces pieces;
  std::memcpy(pieces, bytes, sizeof pieces);
  Arguments arguments(bytes + sizeof pieces);
  const auto mode = arguments.next<uint32_t>(), type = arguments.next<uint32_t>();
  const auto arithmetic = arguments.next<Arithmetic>();
  auto* const numbers = arguments.next<EvidenceNumbers*>();
  if (!reachable(numbers, 1)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  if (type == 0) return run<float>(pieces, mode, arithmetic, *numbers);
  return type == 1 ? run<double>(pieces, mode, arithmetic, *numbers)
                   : CUDA_ERROR_INVALID_VALUE;  // no kernel needs more
}

}  // namespace

const std::vector<KernelCode>& evidence_kernels() {
  constexpr size_t kTable = sizeof(EvidencePieces);
  static const std::vector<KernelCode> kernels = {{"msda_record_evidence",
                                                   {{0, kTable},
                                                    {kTable, 4},
                                                    {kTable + 4, 4},
                                                    {kTable + 8, 8},
                                                    {kTable + 16, 8},
                                                    {kTable + 24, 8},
                                                    {kTable + 32, 8}},
                                                   evidence}};
  return kernels;
}

}  // namespace msda::stand_in
