// Reads a capture in a process of its own. libhdf5 itself crashes, loops or writes beyond its buffers on some damaged
// files; here that ends the reading process, and the caller gets an Error.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "recorder/capture/capture.h"
#include "recorder/capture/reader.h"

namespace msda::capture {

// What Reader has (recorder/capture/reader.h), from a child process that gives plain data back. Only the reading is
// isolated, not the caller's whole work, because that holds in every case: the child's limits of memory and time bind
// nobody's computing or GPU; what libhdf5 overwrites is no memory of the caller's; a crash of the caller is still seen
// as one, and its exit status, its output and its signals are its own.
//
// Limits: a request may take 3 s of CPU time and 1 s more for each MB of the file, and 512 MB of memory and what the
// tensor being read takes, which is checked against the file's size. The child ends with its Reader, or with the
// caller. Not thread-safe. Create it before CUDA is used: what a forked child may do after that is little.
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
  const std::vector<int64_t>& invocation_ids() const;
  Invocation invocation(int64_t id) const;
  // Several at once: a list of thousands would wait for the child as often.
  std::vector<Invocation> outlines(std::span<const int64_t> ids) const;
  Tensor read(const TensorInfo& info) const;
  Verification verify() const;
  // Reads every invocation, as invocation() does, for the Error that one of them may give.
  void check_invocations() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace msda::capture
