// One invocation of a capture in memory, checked, as the analysis takes it.
#pragma once

#include <string>
#include <vector>

#include "analysis/call.h"
#include "analysis/side.h"
#include "recorder/capture/isolated_reader.h"

namespace msda::replay {

// The kernels' word for an element type of the file; uint8, which they do not know, becomes float32.
msda_dtype dtype_of(capture::ElementType type);

// Why an invocation that is no call of the operator's is not replayed, after "is not replayed: "; empty for the others.
std::string why_not_replayed(const capture::Invocation& invocation);

class LoadedCall {
 public:
  // Throws capture::Error or BadInput, naming file and tensor. Tensors whose digest is not the recorded one are read,
  // and named in altered().
  LoadedCall(const capture::IsolatedReader& reader, const capture::Invocation& invocation);

  const std::string& where() const { return where_; }  // "FILE: /invocations/000000"
  const analysis::Call& call() const { return call_; }
  const analysis::Side& recorded() const { return recorded_; }  // without tensors, if no outputs were recorded
  const analysis::Tensor& before(analysis::Gradient gradient) const { return before_[static_cast<int>(gradient)]; }
  const analysis::Side* reference() const { return reference_ ? &*reference_ : nullptr; }
  const std::vector<analysis::Side>& other_results() const { return others_; }
  const std::vector<std::string>& altered() const { return altered_; }

 private:
  analysis::Tensor load(const capture::IsolatedReader& reader, const capture::TensorInfo& info);
  analysis::Tensor load_input(const capture::IsolatedReader& reader, const capture::Invocation& invocation,
                              const char* name);
  analysis::Side load_side(const capture::IsolatedReader& reader, const std::string& name, const std::string& where,
                           const std::vector<capture::TensorInfo>& tensors, const analysis::Conventions& conventions);

  std::string where_;
  std::vector<capture::Tensor> memory_;
  analysis::Call call_;
  analysis::Side recorded_;
  analysis::Tensor before_[3];
  std::optional<analysis::Side> reference_;
  std::vector<analysis::Side> others_;
  std::vector<std::string> altered_;
};

}  // namespace msda::replay
