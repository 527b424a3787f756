// The conventions that compiled kernels follow, where launches do not tell them: found out once for an image of code.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/msda.h"
#include "recorder/writer/confirm.h"

namespace msda::record {

class ConventionsOfKernels {
 public:
  // Conventions are constants of the image, so those that its outputs decided once hold for all its calls. `image` is
  // the digest of the kernel's image, or empty if that is not known.
  std::optional<Conventions> known(uint64_t invocation, const std::string& image) const;
  // From a call's tensors; empty if nothing explains them. What an invocation leaves open, later calls with equal
  // inputs do, too.
  std::optional<Conventions> find(uint64_t invocation, const std::string& image, msda_dialect dialect,
                                  const std::map<std::string, msda_tensor>& tensors);

  // A call was written under conventions that are not the only ones that explain it.
  void note_ambiguous(const std::string& image, const std::string& kernel, int64_t invocation);
  // Invocations whose conventions were open when they were written, and that another call's outputs decided since.
  std::vector<std::pair<int64_t, Conventions>> decided_later() const;
  // The others, counted by kernel.
  std::map<std::string, int64_t> ambiguous() const;

 private:
  struct Open {
    std::string image, kernel;
    int64_t invocation;
  };
  std::map<std::string, Conventions> decided_;
  std::map<std::pair<uint64_t, std::string>, Conventions> undecided_;
  std::vector<Open> open_;
};

}  // namespace msda::record
