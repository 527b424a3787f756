// Slots in pinned memory of the host, which the recorder's kernels fill with results while no thread waits, and as much
// device memory for sums before that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "recorder/preload/driver/driver_api.h"

namespace msda::record {

// Returns " (error 2)", for messages.
std::string in_brackets(cuda::Result error);

// A slot begins with a sequence number: its results are complete when that is the awaited one. Not thread-safe.
class ResultSlots {
 public:
  ResultSlots(size_t slots, size_t slot_bytes) : slots_(slots), slot_bytes_(slot_bytes) {}

  // Prepares the slots for the current context, with zeros on its device before the first use. Returns false, with the
  // reason in `failure`, if there is no memory or the driver refuses.
  bool prepare(std::string& failure);
  // Returns a free slot; null if the device is still using all of them. It stays free until it is taken, once the
  // device has something to do for it.
  uint64_t* free_slot();
  void take_free_slot();
  // Gives a slot back. It is not used again while the device may still write to it.
  void give_back(uint64_t* slot, uint64_t sequence);
  // Returns its memory on the current context's device; call it after prepare().
  cuda::DevicePointer on_device(const uint64_t* slot) const;
  uint64_t next_sequence() { return next_sequence_++; }
  static bool is_complete(uint64_t* slot, uint64_t sequence);

  // Called when a context ends, and with it what was on its device. Results that are not complete by then never will
  // be.
  void context_ends(cuda::Context context);

 private:
  bool map();
  bool pin(std::string& failure);
  cuda::DevicePointer allocate(cuda::Context context, std::string& failure);

  const size_t slots_, slot_bytes_;
  std::byte* memory_ = nullptr;  // of the host, and not the driver's: results outlive a context
  bool is_pinned_ = false;
  std::vector<uint64_t*> free_;
  struct Late {
    uint64_t *slot, sequence;
  };
  std::vector<Late> late_;  // given back before the device was done with them
  uint64_t next_sequence_ = 1;
  cuda::DevicePointer here_ = 0;                            // of the context of the last prepare()
  std::map<cuda::Context, cuda::DevicePointer> on_device_;  // for every slot
};

}  // namespace msda::record
