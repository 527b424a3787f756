// The messages from the recorded process (the target) to the writer. Facts are maps by name, so that either side may be
// newer than the other.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "recorder/spool/archive.h"
#include "recorder/tensors/description.h"
#include "recorder/tensors/facts.h"

namespace msda::spool {

enum class Kind : uint32_t {
  kRun = 1,
  kSeed,
  kKernel,
  kBegin,
  kTensor,
  kParameters,
  kEnd,
  kCount,
  kDigests,
  kDrop,
  kCut,
  kSurveyed,
  kTrail
};

struct Run {
  static constexpr Kind kKind = Kind::kRun;
  std::vector<std::string> argv;
  std::map<std::string, std::string> environment, libraries, facts;
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& argv& environment& libraries& facts;
  }
};

struct Seed {
  static constexpr Kind kKind = Kind::kSeed;
  std::string time, source;
  uint64_t value = 0;
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& time& source& value;
  }
};

// Payload: the image.
struct Kernel {
  static constexpr Kind kKind = Kind::kKernel;
  std::string digest, name, architecture;
  std::map<std::string, int64_t> facts;
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& digest& name& architecture& facts;
  }
};

// An invocation begins; its tensors follow, interleaved with those of other threads' invocations, and an End. Attempts
// from 1 on are later calls with equal inputs, whose outputs and facts replace the earlier ones.
struct Begin : tensors::Facts {
  static constexpr Kind kKind = Kind::kBegin;
  uint64_t invocation = 0;
  uint32_t attempt = 0;
  std::vector<int64_t> grid, block;  // three each, or none
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& invocation& attempt& texts& integers& reals& flags& grid& block;
  }
};

// Payload: the tensor, from its first element to its last, or, if that is shorter, its elements in row-major order;
// empty if it lies in a block of the shared memory (ring.h), or holds only zeros.
struct Tensor {
  static constexpr Kind kKind = Kind::kTensor;
  uint64_t invocation = 0;
  uint32_t attempt = 0;
  std::string section;  // inputs, outputs_before, outputs
  tensors::Description description;
  int64_t block = -1;
  uint64_t offset = 0, bytes = 0;  // in the shared memory
  bool zeros = false;              // the tensor holds only zeros and has no bytes
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    auto& [name, type, shape, strides] = description;
    std::string type_name = kernels::name_of(type);
    archive& invocation& attempt& section& name& type_name& shape& strides& block& offset& bytes& zeros;
    type = kernels::dtype_named(type_name).value_or(msda_dtype{-1});
  }
};

// Payload: a launch's parameters.
struct Parameters {
  static constexpr Kind kKind = Kind::kParameters;
  uint64_t invocation = 0;
  uint32_t attempt = 0;
  std::vector<int64_t> offsets, sizes;
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& invocation& attempt& offsets& sizes;
  }
};

// The device's digests of the tensors, recorded or not: "inputs/value" to "float32 4x5440x8x32 0123...".
struct Digests {
  static constexpr Kind kKind = Kind::kDigests;
  uint64_t invocation = 0;
  uint32_t attempt = 0;
  std::map<std::string, std::string> digests;
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& invocation& attempt& digests;
  }
};

// The invocation is complete.
struct End {
  static constexpr Kind kKind = Kind::kEnd;
  uint64_t invocation = 0;
  uint32_t attempt = 0;
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& invocation& attempt;
  }
};

// Counts calls with the same inputs that were not recorded.
struct Count {
  static constexpr Kind kKind = Kind::kCount;
  uint64_t invocation = 0;
  int64_t duplicates = 0, distinct_outputs = 0;  // so far; different results among all of them, the first included
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& invocation& duplicates& distinct_outputs;
  }
};

// The invocation must not be kept: its call failed, or --keep last:K evicted it.
struct Drop {
  static constexpr Kind kKind = Kind::kDrop;
  uint64_t invocation = 0;
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& invocation;
  }
};

// Ends a capture: what follows goes into another one. Numbers count from 1.
struct Cut {
  static constexpr Kind kKind = Kind::kCut;
  uint64_t number = 0;
  bool keep = false;  // complete the capture so far; otherwise discard it
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& number& keep;
  }
};

// What a survey knows of a kernel so far: replaces what it said before under this number.
struct Surveyed {
  static constexpr Kind kKind = Kind::kSurveyed;
  uint64_t number = 0;
  std::map<std::string, std::string> texts;  // kernel, kernel_digest, architecture
  std::map<std::string, int64_t> integers;   // launches, surveyed, varied, ...
  std::map<std::string, double> numbers;     // evidence_difference, ...
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& number& texts& integers& numbers;
  }
};

// A row of a trail (recorder/capture/trail.h says what it is); numbers of lists' entries count from the first message
// on.
struct TrailRow {
  static constexpr uint32_t kNone = 0xffffffff;
  static constexpr uint64_t kAddress = 0x2173736572646441;  // "Address!", in place of words that are addresses
  enum Kind : uint8_t { kLaunch, kGraph, kCopyIn, kCopyWithin, kCopyOut, kSet, kHostMemory, kFreshMemory };
  enum Flag : uint8_t { kIsDigested = 1, kMeasures = 2, kIsUnordered = 4, kIsSparse = 8 };
  uint64_t digest = 0, bytes = 0;
  uint32_t kernel = kNone, configuration = kNone, parameters = kNone, caller = kNone, parts = kNone;
  uint16_t stream = 0;
  uint8_t kind = kLaunch, flags = 0;
};
static_assert(sizeof(TrailRow) == 40, "without padding: rows are a payload");

// The next part of a trail: new entries of its lists, and rows. Payload: the rows, then the bytes of the parameters.
struct TrailPart {
  static constexpr Kind kKind = Kind::kTrail;
  uint64_t rows = 0;
  std::vector<std::string> kernels, kernel_digests, architectures;  // of each kernel one
  std::vector<std::map<std::string, int64_t>> kernel_facts;
  std::vector<uint64_t> configurations;  // seven each: grid, block, shared memory
  std::vector<std::string> callers;      // four each: Python's frame, autograd's node, the operation, the label
  std::vector<std::string> parts;
  std::vector<uint64_t> parameter_bytes;  // of each entry
  std::vector<uint64_t> changes;          // three each: row, offset, word
  int64_t missing = 0;                    // launches that have no row, since the last message
  bool is_last = false;                   // the process ends
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& rows& kernels& kernel_digests& architectures& kernel_facts& configurations& callers& parts&
        parameter_bytes& changes& missing& is_last;
  }
};

template <class Message>
std::vector<std::byte> encode(const Message& message) {
  OutputArchive archive;
  archive << message;
  return archive.bytes();
}

}  // namespace msda::spool
