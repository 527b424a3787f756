// What msda-replay needs of MPI, as a library of its own (ranks.h).
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#define MSDA_MPI_API __attribute__((visibility("default")))

namespace {

using Take = void (*)(void* to, const char* data, uint64_t bytes);
constexpr uint64_t kMostAtOnce = 1 << 30;  // MPI counts in int

int rank_of_this() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

// Calls part(first byte, bytes) for parts that MPI can count.
template <class Part>
void in_parts(uint64_t bytes, Part&& part) {
  for (uint64_t at = 0; at < bytes; at += kMostAtOnce) {
    part(at, static_cast<int>(std::min(bytes - at, kMostAtOnce)));
  }
}

}  // namespace

extern "C" {

MSDA_MPI_API int msda_mpi_join(int* rank, int* count, int* here) {
  if (const int error = MPI_Init(nullptr, nullptr); error != MPI_SUCCESS) return error;
  MPI_Comm machine = MPI_COMM_NULL;
  MPI_Comm_size(MPI_COMM_WORLD, count);
  *rank = rank_of_this();
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, *rank, MPI_INFO_NULL, &machine);
  MPI_Comm_size(machine, here);
  MPI_Comm_free(&machine);
  return 0;
}

MSDA_MPI_API void msda_mpi_gather(const char* mine, uint64_t bytes, Take take, void* to) {
  int count = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &count);
  std::vector<uint64_t> sizes(static_cast<size_t>(count));
  MPI_Gather(&bytes, 1, MPI_UINT64_T, sizes.data(), 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  if (rank_of_this() != 0) {
    in_parts(bytes, [&](uint64_t at, int part) { MPI_Send(mine + at, part, MPI_CHAR, 0, 0, MPI_COMM_WORLD); });
    return;
  }
  take(to, mine, bytes);
  for (int from = 1; from < count; ++from) {
    std::vector<char> theirs(sizes[static_cast<size_t>(from)]);
    in_parts(theirs.size(), [&](uint64_t at, int part) {
      MPI_Recv(theirs.data() + at, part, MPI_CHAR, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    });
    take(to, theirs.data(), theirs.size());
  }
}

MSDA_MPI_API void msda_mpi_share(const char* of_first, uint64_t bytes, Take take, void* to) {
  MPI_Bcast(&bytes, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  std::vector<char> shared(bytes);
  if (rank_of_this() == 0) shared.assign(of_first, of_first + bytes);
  in_parts(bytes, [&](uint64_t at, int part) { MPI_Bcast(shared.data() + at, part, MPI_CHAR, 0, MPI_COMM_WORLD); });
  take(to, shared.data(), shared.size());
}

MSDA_MPI_API void msda_mpi_leave(int abort) {
  if (abort != 0) MPI_Abort(MPI_COMM_WORLD, 2);
  MPI_Finalize();
}

}  // extern "C"
