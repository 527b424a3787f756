// An operator that a library answers for. What the library says has been compared with the adapter file.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "replay/own/described_operator.h"
#include "replay/own/library_process.h"

namespace msda::replay {

class LibraryOperator final : public DescribedOperator {
 public:
  // `folder`: that of the adapter file. Throws BadInput, whose message names the library.
  LibraryOperator(adapters::UserSpec spec, const std::string& folder, LibraryProcess::Limits limits = {});

  const LibrarySchema& schema() const { return process_->schema(); }
  LibraryProcess& process() const { return *process_; }
  // Returns the input that a tensor of the schema is, and the other way round.
  size_t input_of(size_t schema_tensor) const { return input_of_[schema_tensor]; }
  size_t schema_tensor(size_t input) const { return schema_tensors_[input]; }

 private:
  void check_names();
  void check_tensors();
  void check_output(const LibrarySchema::Output& output);
  void describe();
  [[noreturn]] void fail(const std::string& what) const;

  size_t name_count() const override;
  std::shared_ptr<const OwnCall> new_call(NamedValues values, std::vector<size_t> present,
                                          std::vector<analysis::Tensor> tensors, const analysis::Coordinates& sizes,
                                          std::string where) const override;

  std::unique_ptr<LibraryProcess> process_;
  std::vector<size_t> adapter_tensors_, input_of_, schema_tensors_;
};

}  // namespace msda::replay
