// Reads a capture file. A file may come from anywhere: every size is checked against the file before memory is
// allocated, links out of the file and external storage are refused, and every error is one capture::Error that names
// the file and the object in it. libhdf5 itself may still crash on it: IsolatedReader
// (recorder/capture/isolated_reader.h) has the same functions for untrusted files, and runs this Reader in a child
// process. msda-replay uses only IsolatedReader; Reader is for programs that read their own captures.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "recorder/capture/capture.h"
#include "recorder/capture/contents.h"
#include "recorder/capture/trail.h"

namespace msda::capture {

// What reading a trail will take: the bytes of each of its datasets, by name.
struct TrailOutline {
  int64_t missing = 0;  // as Trail has it
  std::map<std::string, int64_t> bytes;
};

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
  // Returns the kernels; of several functions of one image, one has the image (share_images).
  std::vector<KernelImage> kernels() const;

  // Returns nothing without a survey.
  std::vector<SurveyedKernel> survey() const;

  // Returns nothing without a trail. Every index of a trail is in its list, or kNoEntry.
  std::optional<Trail> trail() const;
  // Returns how many kernels it launches, in less time.
  std::optional<int64_t> trail_launches() const;
  // Return the trail in parts: the sizes, checked against the file, then one dataset in pieces.
  std::optional<TrailOutline> trail_outline() const;
  void read_trail(const std::string& dataset, const std::function<void(std::span<const std::byte>)>& visit) const;

  // Returns the numbers of the invocations in the file, ascending; a number may be missing if a recorder kept only
  // some.
  const std::vector<int64_t>& invocation_ids() const;
  // Returns everything about one invocation except its tensors' data. Checks the rank and the type of each tensor that
  // the format knows, and that its data is in the file.
  Invocation invocation(int64_t id) const;
  // Returns what `list` shows of it, in less time: tensors without digests and strides, stages without numbers, no
  // recorder's digests and no parameters.
  Invocation outline(int64_t id) const;

  // Returns a tensor's data, in the element type of `info`.
  Tensor read(const TensorInfo& info) const;
  // As read(), in pieces.
  void read_pieces(const TensorInfo& info, const std::function<void(std::span<const std::byte>)>& visit) const;

  // Returns the digest of a dataset's data as it is now, and as read() gives it.
  std::string digest_of(const TensorInfo& dataset) const;
  // Returns all differences from what was written: by digests, and by the list of contents if there is one. Without
  // a list and any difference, reads every invocation, as invocation() does, and throws the first one's Error. Several
  // readers may do a part each: their invocations, and the first everything else.
  Verification verify(size_t part = 0, size_t parts = 1) const;
  // `callback` is called before memory is allocated whose size a dataset decides; the bytes have been checked.
  void before_reading(std::function<void(int64_t bytes)> callback);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace msda::capture
