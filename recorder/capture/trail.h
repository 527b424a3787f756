// A trail: what each launch, copy and memset of a program wrote, as digests, in the order in which the program called
// for them (docs/trail.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace msda::capture {

enum class TrailKind : uint8_t {
  kLaunch,       // of a kernel
  kGraph,        // of a CUDA graph, as a whole
  kCopyIn,       // from the host to a device
  kCopyWithin,   // from device to device
  kCopyOut,      // from a device to the host: what was read
  kSet,          // memory was set to a value
  kHostMemory,   // memory of the host that the next launch reaches, as it was before it
  kFreshMemory,  // an allocation, as it was before it was first used: nobody had written it
  kCall,         // of an operator, in a receipt
  kCount
};

// A fact of the run: the program may have launched more than the trail has, as if it was killed.
inline constexpr char kTrailEnd[] = "trail_end", kEarly[] = "early";

inline constexpr uint32_t kNoEntry = 0xffffffff;

// An index refers to the trail's lists; kNoEntry: it has none.
struct TrailRow {
  uint64_t digest = 0;  // of what it wrote; words that are addresses of device memory count as equal
  uint64_t bytes = 0;   // that the digest is of
  uint32_t kernel = kNoEntry, configuration = kNoEntry, parameters = kNoEntry, caller = kNoEntry;
  uint32_t parts = kNoEntry;  // which bytes the digest is of; those of other parts are not to be compared
  uint16_t stream = 0;        // in the order of their first use
  TrailKind kind = TrailKind::kLaunch;
  uint8_t flags = 0;

  static constexpr uint8_t kIsDigested = 1;  // the digest is known
  static constexpr uint8_t kMeasures = 2;    // a tuner measures with it: how often differs from run to run
  // It reaches memory that another stream's work wrote or writes, and nothing orders the two.
  static constexpr uint8_t kIsUnordered = 4;
  // The digest is also of bytes that it did not change, which may be anything that was there before.
  static constexpr uint8_t kIsSparse = 8;
};

struct TrailKernel {
  std::string name, digest, architecture;  // the digest is of its code
  std::map<std::string, int64_t> facts;    // float_atomics, may_communicate, ...: of its code, where it is known
};

struct TrailCaller {
  std::string python, node, operation,
      label;  // "file:line function", autograd's node, the operator, the program's label
  friend auto operator<=>(const TrailCaller&, const TrailCaller&) = default;
};

// Grid, block, bytes of shared memory.
struct TrailConfiguration {
  uint32_t grid[3], block[3], shared_bytes;
  friend auto operator<=>(const TrailConfiguration&, const TrailConfiguration&) = default;
};

struct Trail {
  std::vector<TrailRow> rows;
  std::vector<TrailKernel> kernels;
  std::vector<TrailConfiguration> configurations;
  std::vector<TrailCaller> callers;
  std::vector<std::string> parts;
  // Bytes of parameters at their offsets; a word of 8 bytes that is an address is kAddress instead.
  std::vector<std::vector<std::byte>> parameters;
  static constexpr uint64_t kAddress = 0x2173736572646441;  // "Address!"
  // A row's parameters are those of the list, except for these words.
  struct Change {
    uint64_t row;
    uint32_t offset;
    uint64_t word;
  };
  std::vector<Change> changes;  // by row
  int64_t missing = 0;          // launches that are not in the rows: no memory, or the program was killed

  bool is_empty() const { return rows.empty(); }
};

}  // namespace msda::capture
