// A launch that is known from an earlier one with the same parameters: its tensors, and what identifies their contents.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "recorder/adapters/adapter.h"
#include "recorder/preload/driver/digester.h"
#include "recorder/preload/driver/images.h"
#include "recorder/preload/launch/launch.h"

namespace msda::record {

using Tensors = std::vector<adapters::DeviceTensor>;

// The content of the last launch; never changed once others can see it.
struct LastContent {
  std::string label;     // the program's label for it
  std::string key;       // content_key() of it; empty before there was one
  bool repeats = false;  // it was recorded before
};

struct KnownLaunch {
  std::string name;
  adapters::Launch launch;
  adapters::Call call;
  std::vector<DeviceRange> ranges;     // of the call's inputs, then of its outputs
  std::vector<size_t> tables;          // the inputs of which the adapter has read something
  std::string code;                    // the function's handle as text
  bool inputs_stay = false;            // no input is an output, too
  bool tables_vary = false;            // launches with these parameters have had other tables
  std::shared_ptr<const Image> image;  // null if the code is not known

  std::span<const DeviceRange> inputs() const { return std::span(ranges).first(call.inputs.size()); }
  std::span<const DeviceRange> outputs() const { return std::span(ranges).subspan(call.inputs.size()); }

  // Returns whether the tables are unchanged; if not, the launch must be decoded anew.
  bool same_tables(const Digests& digests);
  std::shared_ptr<const LastContent> last();
  bool repeats() const { return repeats_; }  // last()->repeats, without its lock
  void set_last(LastContent content);
  // Marks the launch for decoding anew.
  void set_stale() { stale_ = true; }

  // How many consecutive checks of autotuner launches found these inputs.
  std::atomic<int> checked_launches{0};
  bool is_stale() const { return stale_; }

 private:
  std::mutex mutex_;
  std::atomic<bool> stale_{false}, repeats_{false};
  std::optional<Digest> digest_of_tables_;
  std::shared_ptr<const LastContent> last_ = std::make_shared<const LastContent>();
};

struct DecodedLaunch {
  std::shared_ptr<KnownLaunch> known;  // null if the launch cannot be recorded; a warning says why
  bool always = true;                  // if so: nor can others with these parameters
};
DecodedLaunch decode(const Launched& launched, const adapters::Adapter& adapter, bool is_kernel,
                     adapters::Launch launch);

// Returns what identifies a launch's content: kernel, label, scalars, and what its inputs hold. The digests begin with
// those of the inputs.
std::string content_key(const KnownLaunch& known, const std::string& label, const Digests& digests);
std::string joined_digests(const Digests& digests, size_t first, size_t count);

// Waits at most ten seconds, because the stream may depend on something that this very thread is about to do. Returns
// false if the digests are not ready then, or the stream has failed.
bool wait_for(const Digests& digests, cuda::Stream stream);
// Why wait_for() gave up, for a warning.
inline constexpr const char* kStreamStalls = "its stream did not finish its earlier work within 10 s, or failed";

}  // namespace msda::record
