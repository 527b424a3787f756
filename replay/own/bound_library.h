// What a library says of one call, on the call's tensors.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "replay/own/library_call.h"
#include "replay/own/library_operator.h"

namespace msda::replay {

class BoundLibrary final : public OwnCall {
 public:
  // As BoundExpressions. Nothing is asked of the library before a term or a coordinate is; then what is wrong with it
  // is thrown as BadInput.
  BoundLibrary(const LibraryOperator& op, NamedValues values, std::vector<size_t> present,
               std::vector<analysis::Tensor> tensors, const analysis::Coordinates& sizes, std::string where,
               const BoundLibrary* given = nullptr);

  analysis::Axes axes(const analysis::ElementId& id) const override;
  analysis::Coordinate coordinate(const analysis::Axis& axis, const analysis::Precision& precision) const override;
  double computed(const analysis::Axis& axis, msda_dtype type) const override;
  void terms_in(size_t output, int64_t flat, const OwnCells& cells, const analysis::Precision& precision,
                const analysis::VisitTerm& visit) const override;
  // Visits the locations of its coordinates, too.
  void reads(size_t output, int64_t flat, const OwnCells& cells, const VisitRead& visit) const override;
  // 0 of what has no data.
  int64_t term_count(size_t output) const override;
  std::shared_ptr<const Call> with_tensors(std::vector<analysis::Tensor> tensors) const override;
  void check() const override;

 private:
  void take_sizes();
  bool has_coordinates(size_t output) const { return op_.schema().outputs[output].coordinates > 0; }
  const LibraryCall& call() const;
  const TermTable& table(size_t output) const;

  // Opened at the first question; shared by all calls whose requests to the library are equal.
  struct Opened {
    std::mutex mutex;
    std::shared_ptr<const LibraryCall> call;
    std::atomic<const LibraryCall*> ready = nullptr;  // the same, without waiting for other threads
  };
  struct Table {
    std::shared_ptr<const TermTable> table;
    std::atomic<const TermTable*> ready = nullptr;
  };

  const LibraryOperator& op_;
  std::shared_ptr<Opened> opened_;
  mutable std::mutex mutex_;
  mutable std::array<Table, analysis::kMostGradients> tables_;  // by output
};

}  // namespace msda::replay
