// Checks a message's fields. A spool may be damaged or come from anywhere; what passes these checks can be used as a
// number of bytes, as the name of an HDF5 object, or as a C string.
#pragma once

#include <cstddef>

#include "recorder/spool/messages.h"

namespace msda::spool {

inline constexpr size_t kMostRank = 32;      // of HDF5's datasets
inline constexpr size_t kLongestName = 255;  // of an HDF5 object, as of a file
inline constexpr size_t kMostFacts = 4096;   // of one message: attributes of one HDF5 object
inline constexpr size_t kMostSeedText = 64;  // a time, a source
inline constexpr uint64_t kMostInvocations = 1ULL << 48;
inline constexpr uint64_t kMostParameterBytes = 1 << 20, kMostImageBytes = 1 << 30;

// Throw Error.
void check(const Run& run);
void check(const Seed& seed);
void check(const Kernel& kernel);
void check(const Begin& begin);
void check(const Tensor& tensor);
void check(const Parameters& parameters);
void check(const Digests& digests);
void check(const End& end);
void check(const Count& count);
void check(const Drop& drop);
void check(const Surveyed& surveyed);
void check(const TrailPart& part);
inline void check(const Cut&) {}

// Check that the frame of a checked message has as many bytes of payload as the message says. Throw Error.
void check_payload(const Tensor& tensor, uint64_t bytes);
void check_payload(const Parameters& parameters, uint64_t bytes);
void check_payload(const Kernel& kernel, uint64_t bytes);

// Reads a message and checks it. Throws Error.
template <class Message>
Message decode(std::span<const std::byte> bytes) {
  InputArchive archive(bytes);
  Message message;
  archive >> message;
  if (archive.left() > 0) throw Error("a message is longer than its fields");
  check(message);
  return message;
}

}  // namespace msda::spool
