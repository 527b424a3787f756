// The CUPTI libraries that the recorder can use, newest first: its hook knows the structures of these releases.
#pragma once

#include <cstdlib>
#include <string>
#include <vector>

namespace msda::record::cupti {

inline constexpr const char* kLibraryNames[] = {"libcupti.so.13", "libcupti.so.12"};

// Returns what to dlopen to load one of them, in this order: by its name, as the dynamic loader finds it, or in a CUDA
// toolkit.
inline std::vector<std::string> library_candidates() {
  std::vector<std::string> paths;
  for (const char* name : kLibraryNames) {
    paths.emplace_back(name);
    for (const char* variable : {"CUDA_HOME", "CUDA_PATH", ""}) {
      const char* home = *variable != 0 ? std::getenv(variable) : "/usr/local/cuda";
      if (home == nullptr) continue;
      for (const char* folder : {"/extras/CUPTI/lib64/", "/lib64/"}) paths.push_back(home + std::string(folder) + name);
    }
  }
  return paths;
}

}  // namespace msda::record::cupti
