// What is known of an operator of the user's own whatever the call, and whoever says it: expressions or a library.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "recorder/adapters/user_spec.h"
#include "replay/own/own_call.h"

namespace msda::replay {

// Never destroyed, because gradients and dimensions refer to it.
class DescribedOperator : public OwnOperator {
 public:
  const std::string& name() const override { return spec_.op->name; }
  const std::string& adapter() const override { return spec_.name; }
  std::shared_ptr<const OwnCall> bind(const capture::Invocation& invocation, const std::string& where,
                                      const GetOwnTensor& input, const GetOwnTensor& output) const override;

  const adapters::UserSpec& spec() const { return spec_; }
  const std::vector<OwnOutput>& outputs() const { return outputs_; }
  std::span<const analysis::Gradient> gradients() const { return gradients_; }
  std::span<const analysis::Dimension> dimensions() const { return dimensions_; }
  const std::vector<size_t>& cuts() const { return cuts_; }  // dimensions whose indices may be left out
  // Tensors of the adapter that are read, ascending; those of them that a call has; and the dimension of each axis of
  // one, -1: it stays whole.
  const std::vector<size_t>& inputs() const { return inputs_; }
  std::vector<size_t> inputs_of(const capture::Invocation& invocation) const;
  const std::vector<int>& axes_of(size_t tensor) const { return axes_.at(tensor); }

 protected:
  explicit DescribedOperator(adapters::UserSpec spec) : spec_(std::move(spec)) {}
  // How many names have values in a call.
  virtual size_t name_count() const = 0;
  // Returns a call that nothing has been checked of, which has the inputs `present`. `where`: for messages.
  virtual std::shared_ptr<const OwnCall> new_call(NamedValues values, std::vector<size_t> present,
                                                  std::vector<analysis::Tensor> tensors,
                                                  const analysis::Coordinates& sizes, std::string where) const = 0;
  // Takes the gradients from outputs_.
  void describe_gradients();
  void add_dimension(const std::string& name);

  adapters::UserSpec spec_;
  std::vector<OwnOutput> outputs_;
  std::vector<size_t> inputs_, cuts_;
  std::map<size_t, std::vector<int>> axes_;  // by tensor of the adapter

 private:
  std::deque<analysis::Gradient::Description> described_gradients_;
  std::deque<analysis::Dimension::Description> described_dimensions_;
  std::vector<analysis::Gradient> gradients_;
  std::vector<analysis::Dimension> dimensions_;
};

}  // namespace msda::replay
