// What the programs of this folder have in common: options, checksums, .npy files, device memory.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#define CHECK(call) ::gpu::check(call, #call)

namespace gpu {

inline void check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(error));
}

// --name VALUE, or --name alone for those in `flags`.
class Options {
 public:
  Options(int count, char** arguments, const std::set<std::string>& flags, const std::set<std::string>& names) {
    for (int i = 1; i < count; ++i) {
      const std::string name = std::string(arguments[i]).substr(0, 2) == "--" ? arguments[i] + 2 : "";
      if (flags.count(name)) {
        values_[name] = "1";
      } else if (names.count(name) && i + 1 < count) {
        values_[name] = arguments[++i];
      } else {
        throw std::invalid_argument(std::string("unknown argument, or one without its value: ") + arguments[i]);
      }
    }
  }
  bool has(const std::string& name) const { return values_.count(name) != 0; }
  std::string text(const std::string& name, const std::string& otherwise = "") const {
    return has(name) ? values_.at(name) : otherwise;
  }
  int number(const std::string& name, int otherwise) const {
    return has(name) ? std::stoi(values_.at(name)) : otherwise;
  }

 private:
  std::map<std::string, std::string> values_;
};

// FNV-1a of the bytes, for two runs to be compared by what they print.
inline uint64_t checksum(const void* data, size_t bytes) {
  uint64_t hash = 0xCBF29CE484222325;
  for (size_t i = 0; i < bytes; ++i) hash = (hash ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001B3;
  return hash;
}

// NumPy's file format 1.0, row-major; `type` as NumPy writes it, "<f4".
inline void save_npy(const std::string& path, const std::string& type, const std::vector<int64_t>& shape,
                     const void* data, size_t bytes) {
  std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': (";
  for (const int64_t side : shape) header += std::to_string(side) + ", ";
  header += "), }";
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 10, ' ');
  header.back() = '\n';
  std::ofstream file(path, std::ios::binary);
  const unsigned char start[] = {0x93,
                                 'N',
                                 'U',
                                 'M',
                                 'P',
                                 'Y',
                                 1,
                                 0,
                                 static_cast<unsigned char>(header.size() & 255),
                                 static_cast<unsigned char>(header.size() >> 8)};
  file.write(reinterpret_cast<const char*>(start), sizeof start);
  file << header;
  file.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
  if (!file.flush()) throw std::runtime_error(path + ": cannot be written");
}

template <class T>
T* upload(const std::vector<T>& values) {
  T* pointer = nullptr;
  CHECK(cudaMalloc(&pointer, values.size() * sizeof(T)));
  CHECK(cudaMemcpy(pointer, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return pointer;
}

template <class T>
std::vector<T> download(const T* pointer, size_t count) {
  std::vector<T> values(count);
  CHECK(cudaMemcpy(values.data(), pointer, count * sizeof(T), cudaMemcpyDeviceToHost));
  return values;
}

// The middle one.
inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::multiset<double> sorted(values.begin(), values.end());
  auto middle = sorted.begin();
  std::advance(middle, sorted.size() / 2);
  return *middle;
}

}  // namespace gpu
