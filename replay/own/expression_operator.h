// An operator whose addends are expressions in an adapter file.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "recorder/adapters/user_operator.h"
#include "replay/own/described_operator.h"

namespace msda::replay {

class ExpressionOperator final : public DescribedOperator {
 public:
  explicit ExpressionOperator(adapters::UserSpec spec);

  bool has_stages() const override;
  const adapters::OperatorSpec& op() const { return *spec_.op; }
  const adapters::OperatorNames& names() const { return names_; }
  // Returns whether the invocation is a call of it: its adapter's, or one without an adapter that has its tensors and
  // facts.
  bool takes(const capture::Invocation& invocation) const;
  // The tensors and dimensions from which an index's size follows.
  struct Extent {
    size_t tensor, dimension;
  };
  const std::vector<Extent>& extents_of(size_t index) const { return extents_[index]; }

 private:
  void look_at(const std::vector<adapters::AddendSpec>& sum);
  void look_at(const adapters::SumSpec& sum);
  void look_at(const adapters::Expression& expression);
  void look_at_stage(const adapters::StageSpec& stage, const adapters::Expression::Reference& reference);
  void find_cuts();

  size_t name_count() const override;
  std::shared_ptr<const OwnCall> new_call(NamedValues values, std::vector<size_t> present,
                                          std::vector<analysis::Tensor> tensors, const analysis::Coordinates& sizes,
                                          std::string where) const override;
  bool begins_with_itself(const adapters::OutputSpec& output) const;

  adapters::OperatorNames names_;
  // The index that each dimension of a tensor has wherever it is read, if it is one name.
  std::map<size_t, std::vector<std::optional<size_t>>> indices_of_;
  std::set<std::pair<size_t, size_t>> mixed_;  // tensors' dimensions of several indices, or none
  std::vector<std::vector<Extent>> extents_;   // by index
  std::set<size_t> loose_;                     // indices that stand elsewhere than as a tensor's index
};

}  // namespace msda::replay
