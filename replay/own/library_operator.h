// An operator that a library answers for. What the library says has been compared with the adapter file.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "recorder/adapters/user_spec.h"
#include "replay/own/library_process.h"
#include "replay/own/own_operator.h"
#include "replay/own/recorded_call.h"

namespace msda::replay {

class LibraryOperator final : public OwnOperator, public analysis::OwnSchema {
 public:
  // `folder`: that of the adapter file. Throws BadInput, whose message names the library.
  LibraryOperator(adapters::UserSpec spec, const std::string& folder, LibraryProcess::Limits limits = {});

  const std::string& name() const override { return spec_.op->name; }
  const std::string& adapter() const override { return spec_.name; }
  std::shared_ptr<const analysis::OwnDefinition> bind(const capture::Invocation& invocation, const std::string& where,
                                                      const GetOwnTensor& input,
                                                      const GetOwnTensor& output) const override;

  const adapters::UserSpec& spec() const { return spec_; }
  const LibrarySchema& schema() const { return process_->schema(); }
  LibraryProcess& process() const { return *process_; }
  std::span<const analysis::Gradient> outputs() const override { return gradients_; }
  std::span<const analysis::Dimension> dimensions() const override { return dimensions_; }

  // Tensors of the adapter that the library has as inputs, ascending; and the input that a tensor of the schema is.
  const std::vector<size_t>& inputs() const { return inputs_; }
  size_t input_of(size_t schema_tensor) const { return input_of_[schema_tensor]; }
  size_t schema_tensor(size_t input) const { return schema_tensors_[input]; }
  const std::vector<size_t>& cuts() const override { return cuts_; }
  std::span<const size_t> dimensions_of(size_t output) const override { return outputs_[output].dimensions; }
  std::span<const size_t> channels_of(size_t output) const override { return channels_[output]; }
  bool begins_with_itself(size_t output) const override;

 private:
  void check_names();
  void check_tensors();
  void check_output(const LibrarySchema::Output& output);
  void describe();
  [[noreturn]] void fail(const std::string& what) const;

  adapters::UserSpec spec_;
  std::unique_ptr<LibraryProcess> process_;
  std::vector<analysis::Gradient::Description> described_gradients_;
  std::vector<analysis::Dimension::Description> described_dimensions_;
  std::vector<analysis::Gradient> gradients_;
  std::vector<analysis::Dimension> dimensions_;
  std::vector<size_t> adapter_tensors_, inputs_, input_of_, schema_tensors_, cuts_;
  std::vector<OutputAxes> outputs_;
  std::vector<std::vector<size_t>> channels_;
};

}  // namespace msda::replay
