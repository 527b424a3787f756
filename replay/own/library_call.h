// A call that is open in the process of a library, and what the library has answered for it: with these sizes, these
// numbers in integer tensors, and any values of the others.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "replay/own/library_operator.h"

namespace msda::replay {

// A coordinate of an element: where its location is, and the steps, numbered among the call's.
struct LibraryCoordinate {
  size_t input;
  int64_t place;
  int32_t size;
  int steps;
};

// The addends of all elements of an output, each with its coordinates in certain cells.
struct TermTable {
  std::vector<uint64_t> words;   // as library_schema.h says, without ends of elements
  std::vector<uint64_t> begins;  // by element, and one more
  std::vector<int32_t> cells;    // of each element, if there are coordinates
  int64_t terms = 0;
  std::optional<std::pair<int64_t, std::string>> fault;  // the first, and its element

  std::span<const uint64_t> of(int64_t flat) const {
    const auto i = static_cast<size_t>(flat);
    return std::span(words).subspan(begins[i], begins[i + 1] - begins[i]);
  }
};

class LibraryCall {
 public:
  // `tensors` by input of the operator: those of integers have data. Messages begin with `where`.
  LibraryCall(const LibraryOperator& op, const NamedValues& values, std::span<const analysis::NamedTensor> tensors,
              const analysis::Coordinates& sizes, std::vector<analysis::Index> outputs, std::string where);
  LibraryCall(const LibraryCall&) = delete;
  LibraryCall& operator=(const LibraryCall&) = delete;
  ~LibraryCall();

  // Returns the element's coordinates; and a list of steps. Thread-safe, as all are. They throw BadInput.
  std::span<const LibraryCoordinate> coordinates(size_t output, int64_t flat) const;
  const std::vector<msda_own_step>& steps(int number) const { return steps_[static_cast<size_t>(number)]; }

  using CellsOf = std::function<void(int64_t flat, std::vector<int32_t>& cells)>;  // appends them
  std::shared_ptr<const TermTable> new_table(size_t output, const CellsOf& cells_of) const;
  // Returns the table of an output without coordinates, made once.
  std::shared_ptr<const TermTable> table(size_t output) const;
  // Returns the terms of one element in other cells. `fault`, if not null, receives what is wrong with one.
  std::shared_ptr<const std::vector<uint64_t>> terms_in(size_t output, int64_t flat, std::span<const int32_t> cells,
                                                        std::string* fault) const;

 private:
  struct OtherCells {
    std::vector<uint64_t> words;
    std::string fault;
  };
  void read_coordinates(size_t output);
  int number_of(std::vector<msda_own_step> steps);
  void append(size_t output, LibraryProcess::Answer answer, int64_t elements, TermTable& table) const;

  const LibraryOperator& op_;
  std::string where_;
  std::vector<analysis::Index> outputs_;  // their shapes
  std::vector<int64_t> input_elements_;   // of floating-point inputs; 0 of others
  std::optional<int64_t> number_;         // in the process
  std::vector<std::vector<msda_own_step>> steps_;
  std::map<std::vector<std::pair<int32_t, double>>, int> numbers_of_steps_;
  std::vector<std::vector<LibraryCoordinate>> coordinates_;  // by output, for each element
  mutable std::mutex mutex_;
  mutable std::vector<std::shared_ptr<const TermTable>> tables_;
  mutable std::map<std::vector<int64_t>, std::shared_ptr<const OtherCells>> other_cells_;
  mutable uint64_t other_words_ = 0;
};

}  // namespace msda::replay
