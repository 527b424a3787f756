// Reads a capture in a process of its own. libhdf5 itself crashes, loops or writes beyond its buffers on some damaged
// files; here that ends the reading process, and the caller gets an Error.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "recorder/capture/capture.h"
#include "recorder/capture/reader.h"

namespace msda::capture {

// Offers what Reader does (recorder/capture/reader.h) through a child process that returns plain data. Only the reading
// is isolated, not the caller's whole work: the child's limits of memory and time do not restrict the caller's
// computing or GPU; libhdf5 cannot overwrite the caller's memory; and the caller keeps its own exit status, output and
// signals.
//
// Limits: a request may take 3 s of CPU time and 1 s more for each MB of the file, and 512 MB of memory plus the file's
// size and twice the size of the tensor being read, which is checked against the file's size. The child ends with its
// Reader, or with the caller. Not thread-safe. Create it before CUDA is used, because a child forked after that may do
// little.
class IsolatedReader {
 public:
  explicit IsolatedReader(const std::string& path);
  IsolatedReader(IsolatedReader&&) noexcept;
  ~IsolatedReader();

  const std::string& path() const;
  const std::string& tool_version() const;
  const std::string& created() const;
  Run run() const;
  std::vector<Seed> seeds() const;
  std::vector<KernelImage> kernels() const;
  std::vector<SurveyedKernel> survey() const;
  std::optional<Trail> trail() const;
  std::optional<int64_t> trail_launches() const;
  const std::vector<int64_t>& invocation_ids() const;
  Invocation invocation(int64_t id) const;
  // Reads several at once, because thousands of separate requests would each wait for the child.
  std::vector<Invocation> outlines(std::span<const int64_t> ids) const;
  Tensor read(const TensorInfo& info) const;
  // Verifies many invocations by several processes, because libhdf5, not the disk, limits the speed.
  Verification verify() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace msda::capture
