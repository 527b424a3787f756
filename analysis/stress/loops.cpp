// Compiled once per instruction set, with MSDA_ISA naming the copy (loops.h). Each loop vectorizes over lanes that are
// separate variables, so that no bit depends on the width of a register.
#include "analysis/stress/loops.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu/random.h"

namespace msda::analysis::stress {
inline namespace MSDA_ISA {
namespace {

constexpr int kLanes = 8;

// Eight lanes; where registers are narrower the compiler divides them.
typedef uint32_t Words __attribute__((vector_size(kLanes * 4)));

// Blackman and Vigna's xoshiro128++, eight of them side by side.
void draw_bits(uint64_t seed, uint32_t* bits, int64_t count) {
  Words words[4];
  kernels::cpu::SplitMix64 seeds(seed);
  for (Words& word : words) {
    for (int i = 0; i < kLanes; i += 2) {
      const uint64_t drawn = seeds.next();
      word[i] = static_cast<uint32_t>(drawn);
      word[i + 1] = static_cast<uint32_t>(drawn >> 32);
    }
  }
  Words s0 = words[0], s1 = words[1], s2 = words[2], s3 = words[3];
  for (int64_t first = 0; first < count; first += kLanes) {
    const Words sum = s0 + s3, drawn = ((sum << 7) | (sum >> 25)) + s0, shifted = s1 << 9;
    s2 ^= s0;
    s3 ^= s1;
    s1 ^= s2;
    s0 ^= s3;
    s2 ^= shifted;
    s3 = (s3 << 11) | (s3 >> 21);
    if (count - first >= kLanes) {
      memcpy(bits + first, &drawn, sizeof drawn);
    } else {
      for (int i = 0; i < count - first; ++i) bits[first + i] = drawn[i];
    }
  }
}

// curand_uniform, in (0, 1].
inline float unit_interval(uint32_t bits) { return static_cast<float>(bits) * 0x1p-32f + 0x1p-33f; }

void uniform_32(const uint32_t* bits, float* numbers, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const float drawn = unit_interval(bits[i]);
    numbers[i] = drawn == 1.0f ? 0.0f : drawn;
  }
}

void uniform_24(const uint32_t* bits, float* numbers, int64_t count) {
  for (int64_t i = 0; i < count; ++i) numbers[i] = static_cast<float>(static_cast<int32_t>(bits[i] >> 8)) * 0x1p-24f;
}

inline int32_t bits_of(float x) {
  int32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
inline float float_of(int32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

// Returns the natural logarithm for 2^-33 <= x <= 1, within 2 units in the last place (Cephes' polynomial).
inline float logarithm(float x) {
  const int32_t bits = bits_of(x);
  int32_t exponent = (bits >> 23) - 126;
  float m = float_of((bits & 0x007fffff) | 0x3f000000);  // in [0.5, 1)
  const bool low = m < 0.707106781f;
  exponent -= low ? 1 : 0;
  m = (low ? m + m : m) - 1.0f;
  const float z = m * m;
  float p = 7.0376836292e-2f;
  p = p * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  const float e = static_cast<float>(exponent);
  float y = p * m * z - 2.12194440e-4f * e - 0.5f * z;
  return m + y + 0.693359375f * e;
}

void normal(const uint32_t* bits, float* numbers, int64_t count) {
  const int64_t half = count / 2;
  for (int64_t i = 0; i < half; ++i) {
    const float radius = sqrtf(-2.0f * logarithm(unit_interval(bits[i])));
    // The angle in quarter turns, from the nearest of them.
    const float turns = static_cast<float>(static_cast<int32_t>(bits[half + i] >> 8)) * 0x1p-22f;
    const int32_t quarter = static_cast<int32_t>(turns + 0.5f);
    const float angle = (turns - static_cast<float>(quarter)) * 1.57079632679f, z = angle * angle;
    const float sine = ((-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f) * z * angle + angle;
    const float cosine =
        ((2.443315711809948e-5f * z - 1.388731625493765e-3f) * z + 4.166664568298827e-2f) * z * z - 0.5f * z + 1.0f;
    const bool swapped = (quarter & 1) != 0;
    const float s = swapped ? cosine : sine, c = swapped ? sine : cosine;
    numbers[i] = radius * ((quarter & 2) != 0 ? -s : s);
    numbers[half + i] = radius * (((quarter + 1) & 2) != 0 ? -c : c);
  }
}

void scale(float* numbers, int64_t count, float factor, float offset) {
  for (int64_t i = 0; i < count; ++i) numbers[i] = numbers[i] * factor + offset;
}

// e^x for |x| <= 80 (Cephes' polynomial).
void exponentials(float* numbers, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    float x = numbers[i];
    x = x > 80.0f ? 80.0f : x < -80.0f ? -80.0f : x;
    const float n = floor(x * 1.44269504088896341f + 0.5f);
    x -= n * 0.693359375f;
    x -= n * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * x + 1.3981999507e-3f;
    p = p * x + 8.3334519073e-3f;
    p = p * x + 4.1665795894e-2f;
    p = p * x + 1.6666665459e-1f;
    p = p * x + 5.0000001201e-1f;
    p = p * (x * x) + x + 1.0f;
    numbers[i] = p * float_of((static_cast<int32_t>(n) + 127) << 23);
  }
}

}  // namespace

extern const Loops kLoops;
#define MSDA_NAME_OF(isa) #isa
#define MSDA_NAME(isa) MSDA_NAME_OF(isa)
const Loops kLoops = {MSDA_NAME(MSDA_ISA), &draw_bits, &uniform_32, &uniform_24, &normal, &scale, &exponentials};

}  // namespace MSDA_ISA
}  // namespace msda::analysis::stress
