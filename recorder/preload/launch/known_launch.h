// What is known of a launch from an earlier one with the same parameters: its tensors, and what distinguishes their
// contents.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "recorder/adapters/adapter.h"
#include "recorder/preload/driver/digester.h"
#include "recorder/preload/driver/images.h"
#include "recorder/preload/launch/launch.h"

namespace msda::record {

using Tensors = std::vector<adapters::DeviceTensor>;

// The content of a launch that has been recognised.
struct LastContent {
  std::string label;     // what it was done for
  std::string key;       // content_key() of it; empty before there was one
  bool repeats = false;  // it was recorded before
};

struct KnownLaunch {
  std::string name;
  adapters::Launch launch;
  adapters::Call call;
  std::string code;                    // the function, by its handle
  bool inputs_stay = false;            // none of them is an output too
  std::shared_ptr<const Image> image;  // of the code; null if it is not known

  // Whether some inputs decide how the others are read.
  bool has_tables() const;
  // Of the inputs that decide how the others are read; false if the launch must be decoded anew, as they have changed.
  bool same_tables(const Digests& digests);
  LastContent last();
  void set_last(LastContent content);
  // That it is to be decoded anew.
  void set_stale() { stale_ = true; }

  // Consecutive autotuner launches that were checked, and had these inputs.
  std::atomic<int> checked_launches{0};
  bool is_stale() const { return stale_; }

 private:
  std::mutex mutex_;
  std::atomic<bool> stale_{false};
  bool has_tables_ = false;
  Digest tables_;
  LastContent last_;
};

// Null, with the reason said, for a launch that the adapter cannot read.
std::shared_ptr<KnownLaunch> decode(const Launched& launched, const adapters::Adapter& adapter, bool is_kernel,
                                    adapters::Launch launch);

std::vector<DeviceRange> ranges_of(const Tensors& tensors);
// Of a launch's inputs, and then of its outputs.
std::vector<DeviceRange> ranges_of(const adapters::Call& call);

// Identifies a launch's content: what it is, for what it is done, and what its inputs hold. The digests begin with
// those of the inputs.
std::string content_key(const KnownLaunch& known, const std::string& label, const Digests& digests);
std::string joined_digests(const Digests& digests, size_t first, size_t count);

// Waits at most ten seconds: the stream may wait for something that this very thread is going to do. False if it does
// not come forward, or has failed.
bool wait_for(const Digests& digests, cuda::Stream stream);

}  // namespace msda::record
