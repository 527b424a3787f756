// A table of pieces of device memory, for kernels of the recorder's whose grid has a row for each piece.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace msda::record {

// `Piece` has its size in `bytes`. A launch takes `most` pieces; a block works on `bytes_of_block` of a piece at a
// time.
template <class Piece, size_t most, uint64_t bytes_of_block>
class PieceTable {
 public:
  static constexpr size_t kMost = most;

  // Returns false if the table is full.
  bool add(const Piece& piece) {
    if (count_ == most) return false;
    pieces_[count_++] = piece;
    most_bytes_ = std::max(most_bytes_, piece.bytes);
    return true;
  }
  // Returns the rows of the grid.
  unsigned rows() const { return count_; }
  unsigned blocks() const {
    constexpr uint64_t kMostBlocks = 1024;
    return static_cast<unsigned>(std::clamp<uint64_t>(most_bytes_ / bytes_of_block, 1, kMostBlocks));
  }

 protected:
  Piece pieces_[most] = {};

 private:
  uint64_t most_bytes_ = 0;
  unsigned count_ = 0;
};

}  // namespace msda::record
