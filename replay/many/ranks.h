// The processes among which mpirun or srun has divided the work.
#pragma once

#include <string>
#include <vector>

namespace msda::replay {

// MPI comes in a library of its own (mpi_library.cpp), which is loaded only where the environment says that mpirun or
// srun has started several processes: msda-replay needs no MPI otherwise.
class Ranks {
 public:
  // Joins the others, or is alone. Throws Unavailable if there are others and MPI is not here, or does not know them.
  Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  // If an exception is on its way, all ranks end: the others would wait for this one for ever.
  ~Ranks();

  // Returns whether the library is installed.
  static bool has_mpi();

  int rank() const { return rank_; }
  int count() const { return count_; }
  int on_this_machine() const { return here_; }
  bool is_first() const { return rank_ == 0; }

  // All ranks must call these. Returns what each gives, by rank, on the first rank; nothing on the others.
  std::vector<std::string> gather(const std::string& mine) const;
  // Returns what the first rank gives.
  std::string share(const std::string& of_first) const;

 private:
  struct Library;
  const Library* library_ = nullptr;
  int rank_ = 0, count_ = 1, here_ = 1;
};

}  // namespace msda::replay
