#include "tests/stand_in_driver/unwritten_kernels.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>

#include "tests/stand_in_driver/driver.h"

namespace msda::stand_in {
namespace {

// Names that other files have as well.
namespace unwritten {

constexpr uint32_t kFresh = 0xCDCDCDCD;  // what memory holds that was just allocated

struct Call {
  uint32_t* to;
  const uint32_t* from;
  int count;
  float number(int i) const { return std::bit_cast<float>(from[i]); }
  void store(int i, float value) const { to[i] = std::bit_cast<uint32_t>(value); }
};

template <CUresult (*body)(const Call&)>
CUresult kernel(const std::byte* bytes) {
  Arguments arguments(bytes);
  const Call call{arguments.next<uint32_t*>(), arguments.next<const uint32_t*>(), arguments.next<int>()};
  if (!reachable(call.to, 1) || !reachable(call.from, 1)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  return body(call);
}

CUresult copy(const Call& c) {
  std::copy_n(c.from, c.count, c.to);
  return CUDA_SUCCESS;
}
CUresult double_each(const Call& c) {
  for (int i = 0; i < c.count; ++i) c.store(i, 2 * c.number(i));
  return CUDA_SUCCESS;
}
CUresult sum(const Call& c) {
  float sum = 0;
  for (int i = 0; i < c.count; ++i) sum += c.number(i);
  c.store(0, sum);
  return CUDA_SUCCESS;
}
// As atomics do.
CUresult add_to(const Call& c) {
  for (int i = 0; i < c.count; ++i) c.to[i] += c.from[i];
  return CUDA_SUCCESS;
}
CUresult in_place(const Call& c) {
  for (int i = 0; i < c.count; ++i) c.to[i] = 3 * c.to[i] + 1;
  return CUDA_SUCCESS;
}
// What is no number does not show.
CUresult maximum(const Call& c) {
  for (int i = 0; i < c.count; ++i) c.store(i, std::fmax(c.number(i), 0.0f));
  return CUDA_SUCCESS;
}
// Only what is no number shows.
CUresult times_zero(const Call& c) {
  for (int i = 0; i < c.count; ++i) c.store(i, 1 + 0 * c.number(i));
  return CUDA_SUCCESS;
}
// A place in a table of 16, which fresh memory names as well. Any other is a fault.
CUresult index(const Call& c) {
  for (int i = 0; i < c.count; ++i) {
    const uint32_t place = c.from[i] == kFresh ? 3 : c.from[i];
    if (place >= 16) return CUDA_ERROR_ILLEGAL_ADDRESS;
    c.to[i] = 100 + place;
  }
  return CUDA_SUCCESS;
}
// Whether it writes at all depends.
CUresult if_odd(const Call& c) {
  for (int i = 0; i < c.count; ++i) {
    if (c.from[i] % 2 == 0) c.to[i] = 7;
  }
  return CUDA_SUCCESS;
}
// Reads everything, and uses the first half.
CUresult half_used(const Call& c) {
  uint32_t seen = 0;
  for (int i = 0; i < c.count; ++i) {
    seen |= c.from[i];
    c.to[i] = i < c.count / 2 ? c.from[i] : 1;
  }
  return seen == 0 ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
}
// Whole vectors are loaded and stored, of which the last has padding.
CUresult vectors(const Call& c) {
  constexpr int kVector = 4;
  for (int i = 0; i < c.count; i += kVector) {
    uint32_t vector[kVector];
    std::copy_n(c.to + i, kVector, vector);
    for (int j = 0; j < kVector && i + j < c.count; ++j) vector[j] = c.from[i + j] + 1;
    std::copy_n(vector, kVector, c.to + i);
  }
  return CUDA_SUCCESS;
}
CUresult first_900(const Call& c) {
  for (int i = 0; i < 900; ++i) c.to[i] = c.from[i] / 2;
  return CUDA_SUCCESS;
}
// Two bytes of four.
CUresult low_halves(const Call& c) {
  auto* const halves = reinterpret_cast<uint16_t*>(c.to);
  for (int i = 0; i < c.count; ++i) halves[2 * i] = static_cast<uint16_t>(0xFF00 + i);
  return CUDA_SUCCESS;
}
// All words that a pattern may hold, and more than these.
CUresult like_patterns(const Call& c) {
  for (int i = 0; i < c.count; ++i) c.to[i] = static_cast<uint32_t>(i % 64 - 32);
  return CUDA_SUCCESS;
}
CUresult drawn(const Call& c) {
  static thread_local std::mt19937 random(1);
  for (int i = 0; i < c.count; ++i) c.to[i] = c.from[i] + (i % 100 == 0 ? static_cast<uint32_t>(random()) : 0);
  return CUDA_SUCCESS;
}
// Another result in each fourth launch, whatever memory holds: in a survey's first on poisoned memory.
CUresult seldom(const Call& c) {
  static std::atomic<uint32_t> launches{0};
  std::fill_n(c.to, c.count, ++launches % 4 == 0 ? 5 : 4);
  return CUDA_SUCCESS;
}
// `from` is a number of the host's, which changes: such a launch is not run again.
CUresult on_host(const Call& c) {
  ++*const_cast<uint32_t*>(c.from);
  std::fill_n(c.to, c.count, 9);
  return CUDA_SUCCESS;
}

// A byte of memory in each of these roles, of which what the recorder's kernel finds out is defined.
struct Byte {
  uint8_t now, before, result, pattern;
  bool is_written() const { return now != pattern || result != before; }
};

struct UnwrittenPiece {
  std::byte *memory, *before, *after;
  unsigned char* flags;
  uint32_t *bits, *left;
  uint64_t bytes;
};
using UnwrittenPieces = UnwrittenPiece[32];

uint32_t pattern_at(const std::byte* place, uint32_t inverted) {
  const auto address = reinterpret_cast<uintptr_t>(place);
  auto mixed = static_cast<uint32_t>(address / 8) * 0x9E3779B1u;
  mixed = (mixed ^ mixed / 32768) * 0x85EBCA77u;
  return (address % 8 == 0 ? std::max(mixed >> 28, 1u) : 0) ^ inverted;
}

bool is_set(const uint32_t* bits, uint64_t word) { return bits != nullptr && (bits[word / 32] >> word % 32 & 1) != 0; }

void fill(const UnwrittenPiece& piece, uint32_t inverted) {
  for (uint64_t word = 0; word < piece.bytes / 4; ++word) {
    if (!is_set(piece.bits, word)) continue;
    const uint32_t pattern = pattern_at(piece.memory + 4 * word, inverted);
    std::memcpy(piece.memory + 4 * word, &pattern, sizeof pattern);
  }
}

// Counts of words that depend, and of words that are left.
void check(const UnwrittenPiece& piece, uint32_t inverted, uint64_t* counts) {
  for (uint64_t at = 0; at < piece.bytes; at += 4) {
    const bool is_unwritten = piece.bytes - at >= 4 && is_set(piece.bits, at / 4);
    const uint32_t pattern = pattern_at(piece.memory + at, inverted);
    bool depends = false, is_written = false;
    for (uint64_t i = at; i < std::min(at + 4, piece.bytes); ++i) {
      const auto byte = [&](const std::byte* memory) { return static_cast<uint8_t>(memory[i]); };
      const bool is_kept = piece.flags[i / 16] != 0 || i >= piece.bytes / 16 * 16;
      const Byte b{byte(piece.memory), byte(piece.before), byte(is_kept ? piece.after : piece.before),
                   static_cast<uint8_t>(pattern >> 8 * (i - at))};
      is_written |= b.is_written();
      depends |= b.now != b.result && (!is_unwritten || b.is_written());
    }
    if (is_unwritten && is_written) piece.left[at / 128] &= ~(1u << at / 4 % 32);
    counts[0] += depends;
    counts[1] += is_set(piece.bits != nullptr ? piece.left : nullptr, at / 4);
  }
}

CUresult find_unwritten(const std::byte* bytes) {
  UnwrittenPieces pieces;
  std::memcpy(pieces, bytes, sizeof pieces);
  Arguments arguments(bytes + sizeof pieces);
  const auto mode = arguments.next<uint32_t>(), inverted = arguments.next<uint32_t>();
  auto* const counts = arguments.next<uint64_t*>();
  for (size_t i = 0; i < std::size(pieces) && pieces[i].bytes > 0; ++i) {
    const UnwrittenPiece& piece = pieces[i];
    for (const std::byte* entry : {piece.memory, piece.before, piece.after}) {
      if (!reachable(entry, static_cast<int64_t>(piece.bytes))) return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    for (const uint32_t* entry : {piece.bits, piece.left}) {
      if (entry != nullptr && !reachable(entry, static_cast<int64_t>((piece.bytes - 1) / 128 + 1))) {
        return CUDA_ERROR_ILLEGAL_ADDRESS;
      }
    }
    if (!reachable(counts + 2 * i, 2)) return CUDA_ERROR_ILLEGAL_ADDRESS;
    if (mode == 0) {
      fill(piece, inverted);
    } else {
      check(piece, inverted, counts + 2 * i);
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace unwritten
}  // namespace

const std::vector<KernelCode>& unwritten_kernels() {
  using unwritten::UnwrittenPieces;
  static const std::vector<Parameter> layout{{0, 8}, {8, 8}, {16, 4}};
  static const std::vector<KernelCode> kernels = {
      {"reads_unwritten_clone", layout, unwritten::kernel<unwritten::copy>},
      {"deterministic_of_clone", layout, unwritten::kernel<unwritten::double_each>},
      {"reads_unwritten_sum", layout, unwritten::kernel<unwritten::sum>},
      {"deterministic_sum", layout, unwritten::kernel<unwritten::sum>},
      {"reads_unwritten_add_to", layout, unwritten::kernel<unwritten::add_to>},
      {"deterministic_add_to", layout, unwritten::kernel<unwritten::add_to>},
      {"reads_unwritten_in_place", layout, unwritten::kernel<unwritten::in_place>},
      {"reads_unwritten_maximum", layout, unwritten::kernel<unwritten::maximum>},
      {"reads_unwritten_times_zero", layout, unwritten::kernel<unwritten::times_zero>},
      {"reads_unwritten_index", layout, unwritten::kernel<unwritten::index>},
      {"reads_unwritten_if_odd", layout, unwritten::kernel<unwritten::if_odd>},
      {"deterministic_half_used", layout, unwritten::kernel<unwritten::half_used>},
      {"deterministic_vectors", layout, unwritten::kernel<unwritten::vectors>},
      {"deterministic_packed", layout, unwritten::kernel<unwritten::first_900>},
      {"reads_unwritten_rest", layout, unwritten::kernel<unwritten::sum>},
      {"deterministic_packed_again", layout, unwritten::kernel<unwritten::first_900>},
      {"deterministic_after_memset", layout, unwritten::kernel<unwritten::sum>},
      {"reads_unwritten_beside_memset", layout, unwritten::kernel<unwritten::sum>},
      {"deterministic_after_upload", layout, unwritten::kernel<unwritten::sum>},
      {"deterministic_after_copy", layout, unwritten::kernel<unwritten::sum>},
      {"reads_unwritten_again", layout, unwritten::kernel<unwritten::sum>},
      {"deterministic_low_halves", layout, unwritten::kernel<unwritten::low_halves>},
      {"deterministic_like_patterns", layout, unwritten::kernel<unwritten::like_patterns>},
      {"deterministic_of_patterns", layout, unwritten::kernel<unwritten::double_each>},
      {"race_drawn", layout, unwritten::kernel<unwritten::drawn>},
      {"may_vary_seldom", layout, unwritten::kernel<unwritten::seldom>},
      {"not_surveyed_on_host", layout, unwritten::kernel<unwritten::on_host>},
      {"deterministic_of_unsurveyed", layout, unwritten::kernel<unwritten::double_each>},
      {"msda_record_unwritten",
       {{0, sizeof(UnwrittenPieces)},
        {sizeof(UnwrittenPieces), 4},
        {sizeof(UnwrittenPieces) + 4, 4},
        {sizeof(UnwrittenPieces) + 8, 8}},
       unwritten::find_unwritten}};
  return kernels;
}

}  // namespace msda::stand_in
