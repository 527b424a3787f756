// An operator whose addends are expressions in an adapter file.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "recorder/adapters/user_spec.h"
#include "replay/own/own_operator.h"

namespace msda::replay {

class ExpressionOperator final : public OwnOperator, public analysis::OwnSchema {
 public:
  explicit ExpressionOperator(adapters::UserSpec spec);

  const std::string& name() const override { return op().name; }
  const std::string& adapter() const override { return spec_.name; }
  std::shared_ptr<const analysis::OwnDefinition> bind(const capture::Invocation& invocation, const std::string& where,
                                                      const GetOwnTensor& input,
                                                      const GetOwnTensor& output) const override;

  bool has_stages() const override;

  const adapters::UserSpec& spec() const { return spec_; }
  const adapters::OperatorSpec& op() const { return *spec_.op; }
  const adapters::OperatorNames& names() const { return names_; }
  std::span<const analysis::Gradient> outputs() const override { return gradients_; }
  std::span<const analysis::Dimension> dimensions() const override { return dimensions_; }

  // Tensors that expressions read, among those of the adapter, ascending.
  const std::vector<size_t>& inputs() const { return inputs_; }
  // Returns those of them that a call has.
  std::vector<size_t> inputs_of(const capture::Invocation& invocation) const;
  // Returns whether the invocation is a call of it: its adapter's, or one without an adapter that has its tensors and
  // facts.
  bool takes(const capture::Invocation& invocation) const;
  // Returns the index that a tensor's dimension has wherever it is read, if it is one name.
  const std::vector<std::optional<size_t>>& axes_of(size_t tensor) const { return axes_.at(tensor); }
  // The tensors and dimensions from which an index's size follows.
  struct Extent {
    size_t tensor, dimension;
  };
  const std::vector<Extent>& extents_of(size_t index) const { return extents_[index]; }
  std::span<const size_t> dimensions_of(size_t output) const override { return op().outputs[output].index; }
  std::span<const size_t> channels_of(size_t output) const override { return op().outputs[output].channels; }
  const std::vector<size_t>& cuts() const override { return cuts_; }
  bool begins_with_itself(size_t output) const override;
  std::string text() const override { return spec_.text; }
  bool rounds_to_tensors() const override { return op().rounds_to_tensors; }

 private:
  void look_at(const std::vector<adapters::AddendSpec>& sum);
  void look_at(const adapters::SumSpec& sum);
  void look_at(const adapters::Expression& expression);
  void look_at_stage(const adapters::StageSpec& stage, const adapters::Expression::Reference& reference);
  void find_cuts();

  adapters::UserSpec spec_;
  adapters::OperatorNames names_;
  std::vector<analysis::Gradient::Description> described_gradients_;
  std::vector<analysis::Dimension::Description> described_dimensions_;
  std::vector<analysis::Gradient> gradients_;
  std::vector<analysis::Dimension> dimensions_;
  std::vector<size_t> inputs_, cuts_;
  std::map<size_t, std::vector<std::optional<size_t>>> axes_;  // by tensor
  std::set<std::pair<size_t, size_t>> mixed_;                  // tensors' dimensions of several indices, or none
  std::vector<std::vector<Extent>> extents_;                   // by index
  std::set<size_t> loose_;                                     // indices that stand elsewhere than as a tensor's index
};

}  // namespace msda::replay
