// The client's problems, and the lines in which it prints their results.
#pragma once

#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace msda::stand_in {

// FNV-1a.
inline uint64_t checksum(const void* data, size_t bytes) {
  uint64_t sum = 0xcbf29ce484222325;
  for (size_t i = 0; i < bytes; ++i) sum = (sum ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001b3;
  return sum;
}

inline std::string line(int launch, std::string_view name, uint64_t sum) {
  char text[96];
  std::snprintf(text, sizeof text, "%d %.*s %016llx\n", launch, static_cast<int>(name.size()), name.data(),
                static_cast<unsigned long long>(sum));
  return text;
}

template <class T>
std::vector<T> uniform(std::mt19937_64& random, size_t count, double low, double high) {
  std::vector<T> values(count);
  for (T& value : values) value = static_cast<T>(low + (high - low) * static_cast<double>(random() >> 11) * 0x1p-53);
  return values;
}

}  // namespace msda::stand_in
