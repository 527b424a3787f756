// Learns which memory launches write from what their first ones changed. From then on only that memory is digested, and
// nothing is copied.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "recorder/preload/driver/change_finder.h"
#include "recorder/preload/trail/launch_words.h"

namespace msda::record {

// The beginning of the unit of memory that is digested as a whole.
constexpr uint64_t unit_of(uint64_t address) { return address / kChangedUnit * kChangedUnit; }
// The beginning and the end of the numbers that hold the first byte and the last one.
constexpr uint64_t down(uint64_t address) { return address / kChangedNumber * kChangedNumber; }
constexpr uint64_t up(uint64_t address) { return down(address + kChangedNumber - 1); }

// Bytes from an address among the parameters on, starting at the multiple of 16 at or before it.
struct WrittenPart {
  uint32_t pointer = 0;  // its offset in the parameters
  uint64_t begin = 0, end = 0;
  friend auto operator<=>(const WrittenPart&, const WrittenPart&) = default;
};
using WrittenParts = std::vector<WrittenPart>;
// Describes the parts in numbers of 4 bytes, as they are digested.
std::string text_of(const WrittenParts& parts);

// A launch to learn from: all that it reaches is compared with a copy made before it.
struct LearntLaunch {
  uint64_t row = 0;
  std::vector<uint32_t> pointers;   // of each piece that was compared
  std::vector<uint64_t> cut;        // the size of each that memory goes on after; otherwise 0
  FoundChanges changes;             // until they are found
  std::vector<FoundInPiece> found;  // in each piece, once it is
  bool has_failed = false;

  bool is_found();
  // Available once the changes are found.
  WrittenParts parts() const;
  bool is_sparse() const;  // some of them was not changed at all
  bool is_cut() const;     // it wrote up to near where the comparison ended, and maybe further
};

// Words in which a launch differs from its variant's first one: offsets and values.
using ChangedWords = std::vector<std::pair<uint32_t, uint64_t>>;

// Launches of a function that write the same parts, as far as is known: those of one grid whose parameters are equal,
// except for addresses and for halves of words that were seen to be irrelevant while all others are equal.
class LaunchVariant {
 public:
  // Returns what a launch in this row writes; null if it is to be learnt from. Two equal runs get the same answers,
  // however fast their devices are: what a launch taught counts only from a fixed number of rows later on.
  const WrittenParts* parts_for(uint64_t row);
  void learn(std::shared_ptr<LearntLaunch> launch) {
    if (!is_forgotten_) learning_.push_back(std::move(launch));
  }
  // Returns how many bytes from each address on are to be compared.
  uint64_t bytes_to_compare() const { return bytes_to_compare_; }
  // Returns whether some of the parts were not changed, so that the digest covers what was there before as well. Call
  // it after parts_for().
  bool is_sparse() const { return is_sparse_; }
  // Nothing can be learnt: each launch is compared as a whole.
  void forget() {
    is_known_ = is_odd_ = is_forgotten_ = true;
    learning_.clear();
  }

  // Returns whether words among which addresses still stand are parameters of its launches, given that they have
  // addresses where its first launch has some.
  bool has_all_but_addresses(std::span<const std::byte> words) const;
  // Returns whether launches may differ in this word without writing other parts: in some of its bits, or in all.
  bool is_indifferent(size_t word) const { return word < indifferent_.size() && indifferent_[word] != 0; }
  bool is_indifferent_as_a_whole(size_t word) const { return is_indifferent(word) && ~indifferent_[word] == 0; }

  uint32_t parameters = 0, caller = 0;  // entries of the trail's lists
  std::vector<std::byte> bytes;         // the parameters of its first launch
  std::optional<uint32_t> parts_entry;  // of parts_for()

 private:
  friend class FunctionLaunches;
  static constexpr uint64_t kBytesToCompare = 1 << 20;
  bool has(const std::vector<std::byte>& words) const;
  void note_unused(const std::vector<std::byte>& words);
  bool is_seen_to_differ(size_t half, uint32_t value, bool is_of_address);
  void settle(uint64_t row);
  void add(const LearntLaunch& launch);

  std::vector<std::shared_ptr<LearntLaunch>> learning_;
  WrittenParts parts_;
  bool is_sparse_ = false;
  std::vector<uint64_t> indifferent_;  // for each word, which of its bits are, in whole halves; empty: none
  std::vector<bool> unused_;           // for each word, whether it held an address once, and another time a number
  bool has_exceptions_ = false;        // launches that has() takes for its own wrote other parts
  static constexpr size_t kEnoughValues = 3;
  struct OtherLaunches {
    std::array<uint32_t, kEnoughValues> values;
    uint8_t count = 0, launches = 0;  // of the values, and of launches, as many as count
  };
  std::vector<OtherLaunches> seen_to_differ_;  // for each half of a word that may be a size or an address; or empty
  uint64_t bytes_to_compare_ = kBytesToCompare;
  int64_t launches_ = 0, learnt_ = 0;
  bool is_known_ = false, is_odd_ = false;  // odd: it writes addresses, or nothing can be learnt
  bool is_forgotten_ = false;
};

// All of a function's launches of one grid.
class FunctionLaunches {
 public:
  // A small word that differs from launch to launch may be a random number's place, and is then not a size.
  explicit FunctionLaunches(bool draws_random_numbers = false) : draws_random_numbers_(draws_random_numbers) {}

  LaunchVariant& variant_of(const LaunchWords& words, uint64_t row);
  // Returns whether the last call found a new one.
  bool is_new() const { return is_new_; }
  // Returns a number that changes whenever variant_of() may find another variant for equal words.
  uint64_t version() const { return version_; }
  // Returns the variant of launches with these parameters, in which addresses still stand, if it is one with
  // indifferent words and variant_of() would find it; else null.
  const LaunchVariant* kind_of(std::span<const std::byte> parameters) const;
  // Returns the words in which the launch differs from its variant's first launch. Words in unused places do not count:
  // what was on the stack before stands there.
  static ChangedWords changes_of(const LaunchVariant& variant, const LaunchWords& words);
  // The same of parameters in which addresses still stand, and that kind_of() has found to be of this variant. Call it
  // after memory.enter().
  static ChangedWords changes_of(const LaunchVariant& kind, std::span<const std::byte> parameters, MemoryMap& memory);

 private:
  LaunchVariant* find(const std::vector<std::byte>& bytes) const;
  void join_alike(uint64_t row);
  bool join(LaunchVariant& kind, const LaunchVariant& joining) const;
  void find_exceptions(LaunchVariant& kind) const;

  const bool draws_random_numbers_;
  std::vector<std::unique_ptr<LaunchVariant>> variants_;
  std::unordered_map<uint64_t, LaunchVariant*> by_hash_;  // of all words
  std::vector<LaunchVariant*> kinds_;                     // those with indifferent halves of words
  uint64_t version_ = 0;
  uint64_t bytes_to_compare_ = LaunchVariant::kBytesToCompare;  // the most that any of them needed
  size_t compared_ = 0;                                         // variants, with those before them
  bool is_new_ = false;
};

}  // namespace msda::record
