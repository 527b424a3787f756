// Finds out whether a launch's results depend on memory that nobody wrote, and which of that memory the launch writes,
// by extra launches on memory whose unwritten words hold a pattern.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "recorder/device/unwritten_launch.h"
#include "recorder/preload/launch/launch.h"
#include "recorder/preload/survey/copy_space.h"
#include "recorder/preload/survey/trial.h"
#include "recorder/preload/survey/unwritten.h"

namespace msda::record {

// A byte that nobody had written before the launch is not written by it either if it holds the pattern after the launch
// on poisoned memory, and its old content after the program's own launch. Every other byte is a result. A result
// depends on unwritten memory if it differs from that of the program's own launch. An unwritten byte whose old content
// decides it, as with atomics, is such a result, and so is a copy of unwritten memory, because the pattern differs at
// each address. Padding that is loaded and stored back is no such result, and neither is what is read and makes no
// difference. A kernel that happens to store one of the patterns is seen with the other one.
class PoisonTrial {
 public:
  struct Result {
    enum class State {
      kNothing,  // it reaches no unwritten memory
      kDone,
      kNoRoom,
      kRefused,  // by the driver
    } state = State::kNothing;
    uint64_t depend = 0;            // 32-bit words of the results that depend on unwritten memory
    uint64_t unwritten = 0;         // words that nobody had written
    uint64_t allocation_bytes = 0;  // of the allocations with such words
  };

  // Needs `trial` to have run, and the launch's results to be in place; they are in place again afterwards.
  PoisonTrial(const Launched& launched, const Trial& trial, Unwritten& unwritten)
      : launched_(launched), trial_(trial), unwritten_(unwritten) {}

  // Notes what the launch has written. If `is_judged`, looks for dependence. Dependence counts only if so many launches
  // on memory as it was repeat the program's results, and the poisoned ones do not: what varies seldom may have varied.
  Result run(CopySpace& space, bool is_judged, int confirmations);
  // Returns what the launch found unwritten; after run().
  std::vector<UnwrittenMemory> found() const;

 private:
  struct Piece {
    size_t number;  // in pieces_
    Unwritten::Words words;
    uint64_t rows;  // words of bits
  };

  void find_unwritten(Result& result);
  bool reserve(CopySpace& space);
  bool set_bits();
  // Launches again, with or without poison, and sets depend_ and left_. Returns false if the driver refuses.
  bool launch(const Poison* poison);
  bool launch_all(Result& result, bool is_judged, int confirmations);
  bool is_confirmed(Poison poison, int times);
  bool note_written(bool depends);
  void count_all_written();

  const Launched& launched_;
  const Trial& trial_;
  Unwritten& unwritten_;
  std::vector<UnwrittenPiece> pieces_;
  std::vector<Piece> poisoned_;  // those of them with unwritten words
  cuda::DevicePointer counts_ = 0;
  uint64_t depend_ = 0;         // words, after the last launch
  std::vector<uint64_t> left_;  // words, of each piece
};

// Returns what a launch would find unwritten; before run().
std::vector<UnwrittenMemory> unwritten_in(const Trial& trial, const Unwritten& unwritten);

}  // namespace msda::record
