// One recorded call on its way into a reproducer: its tensors by the keys of docs/python.md, and what is wrong with it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/numbers/compare.h"
#include "replay/calls/loaded_call.h"
#include "replay/report/result.h"

namespace msda::replay {

struct KeyedTensor {
  std::string key;  // "value", "observed_grad_value", "reference_grad_value", "before_grad_value"
  analysis::Tensor tensor;

  std::span<const std::byte> bytes() const;
};

// What a reproducer shows: one of the findings, by its place, and the group that it belongs to.
struct Shown {
  const analysis::Group* group;
  size_t finding;
};

struct ExportedCall {
  std::string capture;  // the file's name, without its folder
  std::string flags;    // that name, and what decides the comparison, as words of a command line
  const LoadedCall* loaded = nullptr;
  std::vector<InvocationResult> results;             // of this call alone, as reports take them
  std::optional<capture::Tensor> level_start_index;  // an input that the operator derives itself
  std::optional<Shown> shown;                        // nothing: nothing is out of tolerance

  const InvocationResult& result() const { return results.front(); }
  const analysis::Finding& finding() const { return result().report.findings[shown->finding]; }
  const capture::Invocation& invocation() const { return result().invocation; }
  const analysis::Call& call() const { return loaded->call(); }
  // Returns the tolerance of the finding: the recorded one or that of the flags, else the customary one.
  analysis::Tolerance tolerance() const;
  // Returns the recorded element, the one that it is compared with, and the type of each.
  const analysis::Tensor& recorded() const { return loaded->recorded().of(finding().gradient); }
  msda_dtype type_of_expected() const;

  // Returns all tensors; with `of_finding` the inputs that the gradient depends on, and what the finding compares.
  std::vector<KeyedTensor> tensors(bool of_finding) const;
  // Beside the recorded dialect: those whose arithmetic explains the finding.
  std::vector<std::string> other_dialects() const;
};

// Returns the finding of an element, "grad_value[0,3,1,2]". Without a name it is the one that `run` reports first,
// which is advice only if there is nothing else. Returns nothing if there is none.
std::optional<Shown> shown_of(const analysis::Report& report, const std::string& element);

// "0x3f800000": the element's bits as stored.
std::string bits_text(const analysis::Tensor& tensor, int64_t flat);
// Returns the bits of a value that the type has.
std::string bits_text(double value, msda_dtype dtype);

}  // namespace msda::replay
