// One invocation of a capture, loaded and checked, as the analysis takes it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "analysis/model/call.h"
#include "analysis/model/side.h"
#include "recorder/capture/isolated_reader.h"
#include "replay/base/options.h"

namespace msda::replay {

// Returns why an invocation is not replayed, to follow "is not replayed: ": it is of another kernel, or too large.
// Empty for those that are.
std::string why_not_replayed(const capture::IsolatedReader& reader, const capture::Invocation& invocation);

class LoadedCall {
 public:
  // Throws capture::Error or BadInput, naming file and tensor, also for data that do not match their digests, unless
  // --damaged is given: then altered() names them.
  LoadedCall(const Options& options, const capture::IsolatedReader& reader, const capture::Invocation& invocation);

  const std::string& where() const { return where_; }  // "FILE: /invocations/000000"
  const analysis::Call& call() const { return *call_; }
  std::shared_ptr<const analysis::Call> shared_call() const { return call_; }
  const analysis::Side& recorded() const { return recorded_; }  // without tensors, if no outputs were recorded
  const analysis::Tensor& before(analysis::Gradient gradient) const { return before_[gradient.place()]; }
  const analysis::Side* reference() const { return reference_ ? &*reference_ : nullptr; }
  const std::vector<analysis::Side>& other_results() const { return others_; }
  const std::vector<std::string>& altered() const { return altered_; }

 private:
  void read_all(const capture::IsolatedReader& reader, const capture::Invocation& invocation);
  analysis::Tensor tensor(const capture::TensorInfo& info) const;
  analysis::Tensor input(const capture::Invocation& invocation, const char* name) const;
  analysis::Side side(const std::string& name, analysis::Source source, const std::string& where,
                      const std::vector<capture::TensorInfo>& tensors) const;
  void fill_results(const capture::Invocation& invocation);

  std::string file_, where_;
  std::map<std::string, capture::Tensor> memory_;  // by path
  std::shared_ptr<const analysis::Call> call_;
  analysis::Side recorded_;
  analysis::Tensor before_[analysis::kMostGradients];
  std::optional<analysis::Side> reference_;
  std::vector<analysis::Side> others_;
  std::vector<std::string> altered_;
};

}  // namespace msda::replay
