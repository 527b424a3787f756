#include "recorder/writer/version.h"

#include <fmt/format.h>

#include <H5public.h>

#include "kernels/cuda_version.h"
#include "recorder/device/cupti_libraries.h"

namespace msda::record {
namespace {

#if defined(__clang__)
constexpr char kCompiler[] = "Clang " __clang_version__;
#else
constexpr char kCompiler[] = "GCC " __VERSION__;
#endif

}  // namespace

std::string version() { return MSDA_VERSION; }

std::string hdf5_version() {
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return fmt::format("{}.{}.{}", major, minor, release);
}

std::string describe_build(const std::string& program) {
  const std::string cuda = msda_cuda_version();  // libmsda may come from another build, as in the wheel with kernels
  std::string cupti;
  for (const char* name : cupti::kLibraryNames) cupti += fmt::format("{}{}", cupti.empty() ? "" : ", ", name);
  return fmt::format(
      "{} {}\ncompiler: {}\nCUDA: {}\nHDF5: {}\nCUPTI: {}\nrecorder's hooks: CUDA driver API, CUPTI, C ABI of libmsda, "
      "seeds",
      program, version(), kCompiler, cuda.empty() ? "built without" : "built with " + cuda, hdf5_version(), cupti);
}

}  // namespace msda::record
