#include "replay/many/ranks.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>

#include "recorder/text/numbers.h"
#include "replay/base/errors.h"

namespace msda::replay {

struct Ranks::Library {
  using Take = void (*)(void* to, const char* data, uint64_t bytes);
  int (*join)(int* rank, int* count, int* here) = nullptr;
  void (*gather)(const char* mine, uint64_t bytes, Take take, void* to) = nullptr;
  void (*share)(const char* of_first, uint64_t bytes, Take take, void* to) = nullptr;
  void (*leave)(int abort) = nullptr;
};

namespace {

// Returns how many processes were started together, as Open MPI, MPICH and its kin, or srun say in the environment.
int64_t started_together() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    const char* const value = std::getenv(name);
    if (value == nullptr) continue;
    if (const auto count = text::parse_number<int64_t>(value); count && *count > 1) return *count;
  }
  return 1;
}

std::filesystem::path library_path() {
  const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  for (const auto& at : {folder.parent_path() / "lib", folder.parent_path() / MSDA_LIBDIR}) {
    if (std::filesystem::exists(at / "libmsda_mpi.so")) return at / "libmsda_mpi.so";
  }
  return {};
}

[[noreturn]] void refuse(int64_t count, const std::string& why, const std::string& remedy) {
  throw Unavailable(fmt::format("{} processes were started together, but {}; {}", count, why, remedy));
}

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) throw Unavailable(fmt::format("libmsda_mpi.so has no {}: install msda-replay whole", name));
}

void append(void* to, const char* data, uint64_t bytes) {
  static_cast<std::vector<std::string>*>(to)->emplace_back(data, bytes);
}

}  // namespace

bool Ranks::has_mpi() { return !library_path().empty(); }

Ranks::Ranks() {
  const int64_t count = started_together();
  if (count == 1) return;
  const std::filesystem::path path = library_path();
  if (path.empty()) {
    refuse(count, "this msda-replay was built without MPI",
           "install an MPI (Debian: libopenmpi-dev) and build again, or start one process");
  }
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);  // MPI's own plugins look for its symbols
  if (handle == nullptr) refuse(count, fmt::format("MPI cannot be loaded: {}", dlerror()), "start one process");
  static Library library;
  find(handle, "msda_mpi_join", library.join);
  find(handle, "msda_mpi_gather", library.gather);
  find(handle, "msda_mpi_share", library.share);
  find(handle, "msda_mpi_leave", library.leave);
  if (const int error = library.join(&rank_, &count_, &here_); error != 0) {
    refuse(count, fmt::format("MPI does not start (error {})", error), "start one process");
  }
  library_ = &library;
  if (count_ == 1) {
    library.leave(0);
    library_ = nullptr;
    refuse(count, "MPI does not know the others",
           "start them with the mpirun of the MPI that msda-replay was built with, or with srun --mpi=pmix");
  }
}

Ranks::~Ranks() {
  if (library_ != nullptr) library_->leave(std::uncaught_exceptions() > 0 ? 1 : 0);
}

std::vector<std::string> Ranks::gather(const std::string& mine) const {
  if (library_ == nullptr) return {mine};
  std::vector<std::string> all;
  library_->gather(mine.data(), mine.size(), append, &all);
  return all;
}

std::string Ranks::share(const std::string& of_first) const {
  if (library_ == nullptr) return of_first;
  std::vector<std::string> shared;
  library_->share(of_first.data(), of_first.size(), append, &shared);
  return shared.front();
}

}  // namespace msda::replay
