// Reads a capture file. A file may come from anywhere: every size is checked against the file before memory is asked
// for, links out of the file and storage outside it are refused, and whatever is wrong becomes one capture::Error that
// names the file and the object in it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "recorder/capture/capture.h"

namespace msda::capture {

class Reader {
 public:
  explicit Reader(const std::string& path);
  Reader(Reader&&) noexcept;
  ~Reader();

  const std::string& path() const;
  const std::string& tool_version() const;
  const std::string& created() const;

  Run run() const;
  std::vector<Seed> seeds() const;
  std::vector<KernelImage> kernels() const;

  // Numbers of the invocations in the file, ascending; a number may be missing where a recorder kept only some.
  const std::vector<int64_t>& invocation_ids() const;
  // Everything about one invocation but its tensors' data. Checks the rank and the type of each tensor that the format
  // knows, and that its data is in the file.
  Invocation invocation(int64_t id) const;

  // A tensor's data, in the element type of `info`.
  Tensor read(const TensorInfo& info) const;

  // Every dataset of the file with its digest as written, for verifying.
  std::vector<TensorInfo> datasets() const;
  // The digest of a dataset's data as it is now.
  std::string digest_of(const TensorInfo& dataset) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace msda::capture
