// Writes a capture file, one invocation at a time. What has been flushed survives a crash of the writer.
//
// HDF5 is not thread-safe; neither is this. Every function throws capture::Error.
#pragma once

#include <string>
#include <vector>

#include "recorder/capture/capture.h"
#include "recorder/capture/trail.h"

namespace msda::capture {

class Writer {
 public:
  enum class IfExists { kRefuse, kReplace };

  // Creates `path` with mode 0600. Follows no symbolic link, and replaces a regular file only if asked to, when the
  // first invocation has been flushed, or with close(). A capture that never holds one and is not closed is removed.
  Writer(const std::string& path, IfExists if_exists, const std::string& tool_version);
  Writer(Writer&&) noexcept;
  ~Writer();  // closes; call close() to hear of errors

  // Adds what msda-replay says of the file, as text.
  void write_verdict(const std::string& verdict);
  void write_run(const Run& run, const std::vector<Seed>& seeds);
  // Call it once, with all of them.
  void write_survey(const std::vector<SurveyedKernel>& kernels);
  // Call it once, with all of it; its indices must be in its lists.
  void write_trail(const Trail& trail);
  // The first function that is added with an image brings it for all functions of that image.
  void add_kernel(const KernelImage& kernel);

  // Begins the next invocation and returns its number; the add_ functions then fill it.
  int64_t begin_invocation(const CallFacts& facts, const Parameters& parameters = {});
  void add_input(const TensorView& tensor);
  void add_output_before(const TensorView& tensor);
  void add_output(const TensorView& tensor);
  // Adds the recorder's own digests of the tensors, recorded or not: "inputs/value" to "float32 4x5440x8x32 0123...".
  void add_digests(const std::map<std::string, std::string>& digests);
  void add_result(const ResultFacts& facts, const std::vector<TensorView>& tensors);

  // Reopens a written invocation, to add what it lacks.
  void continue_invocation(int64_t invocation);
  // Reopens a written invocation and replaces its facts and parameters, and every tensor that is added.
  void reopen_invocation(int64_t invocation, const CallFacts& facts, const Parameters& parameters = {});
  // Shares the tensors of another invocation's section ("inputs", "outputs_before") with the current one.
  void share(int64_t invocation, const std::string& section);

  // Begins a stage's tensor, which is added in parts that together are the whole. A part is a box that begins at
  // `offset` and has the part's shape; its name is ignored. Several stages may be begun at a time; end_stage() computes
  // a stage's digest from the file.
  void begin_stage(const std::string& stage, msda_dtype type, const std::vector<int64_t>& shape);
  void add_stage_part(const std::string& stage, const std::vector<int64_t>& offset, const TensorView& part);
  void end_stage(const std::string& stage);
  void add_stage_facts(const std::string& stage, const StageFacts& facts);
  // Removes all stages of the open invocation, complete or not.
  void drop_stages();

  // Returns an input as it was written.
  std::vector<std::byte> read_input(int64_t invocation, const std::string& name) const;

  // Sets facts of an invocation after it was written. Conventions that are set are the only ones that fit.
  void set_conventions(int64_t invocation, const std::string& padding_mode, bool align_corners);
  void set_duplicates(int64_t invocation, int64_t duplicates, int64_t distinct_outputs);

  // Hands everything so far to the operating system.
  void flush();
  // Reserves disk space for `bytes` more bytes until the next flush, so that nothing is begun that cannot be completed.
  // Returns false if there is no space, or if fewer than `spared` bytes of the disk would then be free. After an Error
  // the file keeps the state of the last flush.
  bool reserve(int64_t bytes, int64_t spared = 0);
  // Adds the list of contents and closes the file. If somebody has removed it, it is written again.
  void close();
  // Returns, once closed, whether another program has had it open for writing, as far as the system shows.
  bool was_disturbed() const;
  // Removes the file when this Writer ends, whatever it holds.
  void discard();

 private:
  void write_contents();
  void write_facts(const CallFacts& facts, const Parameters& parameters);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace msda::capture
