#include "recorder/preload/trail/written_parts.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <thread>

#include "recorder/preload/survey/patience.h"

namespace msda::record {
namespace {

constexpr uint64_t kRowsUntilLearnt = 64;

// Waits for what the device has nearly always found long before. A launch that never ends, or that waits for the
// program's next work, teaches nothing: the time waited in vain is bounded, however many launches there are.
bool wait_for(LearntLaunch& launch) {
  static constinit Patience patience(2, 2, 0);
  const std::chrono::duration<double> most(patience.seconds());
  const auto begin = std::chrono::steady_clock::now();
  while (!launch.is_found()) {
    if (std::chrono::steady_clock::now() - begin > most) return patience.note(false);
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  return patience.note(true);
}

// Returns true for the first launch, and ever more seldom for later ones: it may have found in memory what it wrote.
bool is_to_be_learnt_from(int64_t launches) {
  constexpr int kBits = 4;  // 16, 256, ...
  if (launches == 1) return false;
  return (launches & (launches - 1)) == 0 && std::countr_zero(static_cast<uint64_t>(launches)) % kBits == 0;
}

// Returns whether two numbers that differ may be sizes.
bool may_be_size(uint32_t a, uint32_t b) {
  constexpr uint32_t kMost = 1 << 28;
  return a < kMost && b < kMost;
}

size_t words_in(const std::vector<std::byte>& bytes) { return (bytes.size() + kWord - 1) / kWord; }

// Half a word may be a parameter of its own: PyTorch's fill has a size in the first half of a word and a value in the
// other.
constexpr size_t kHalf = kWord / 2;
constexpr uint64_t bits_of(size_t half) { return uint64_t{0xFFFF'FFFF} << (half % 2 * 8 * kHalf); }
uint32_t half_in(const std::vector<std::byte>& bytes, size_t number) {
  return static_cast<uint32_t>(word_in(bytes, number / 2 * kWord) >> (number % 2 * 8 * kHalf));
}
bool is_address(const std::vector<std::byte>& bytes, size_t half) {
  return word_in(bytes, half / 2 * kWord) == spool::TrailRow::kAddress;
}

uint64_t hash_of(const std::vector<std::byte>& bytes) {
  uint64_t hash = bytes.size();
  for (size_t i = 0; i < words_in(bytes); ++i) {
    hash = (hash ^ word_in(bytes, i * kWord)) * 0x9E3779B97F4A7C15;
    hash ^= hash >> 29;
  }
  return hash;
}

// Returns whether launches changed the same numbers.
bool are_same(const WrittenParts& a, const WrittenParts& b) {
  return std::ranges::equal(a, b, [](const WrittenPart& x, const WrittenPart& y) {
    return x.pointer == y.pointer && down(x.begin) == down(y.begin) && up(x.end) == up(y.end);
  });
}

// Returns whether launches may have written the same: the same units. A number may stay as it is when it is written.
bool may_be_same(const WrittenParts& a, const WrittenParts& b) {
  return std::ranges::equal(a, b, [](const WrittenPart& x, const WrittenPart& y) {
    return x.pointer == y.pointer && unit_of(x.begin) == unit_of(y.begin) && unit_of(x.end - 1) == unit_of(y.end - 1);
  });
}

void add_parts(WrittenParts& parts, const WrittenParts& more) {
  for (const WrittenPart& part : more) {
    const auto same = std::ranges::find(parts, part.pointer, &WrittenPart::pointer);
    if (same == parts.end()) {
      parts.push_back(part);
    } else {
      same->begin = std::min(same->begin, part.begin);
      same->end = std::max(same->end, part.end);
    }
  }
  std::ranges::sort(parts);
}

}  // namespace

std::string text_of(const WrittenParts& parts) {
  std::string text;
  for (const WrittenPart& part : parts) {
    text += (text.empty() ? "" : " ") + std::to_string(part.pointer) + "+" + std::to_string(down(part.begin)) + ":" +
            std::to_string(up(part.end));
  }
  return text;
}

bool LearntLaunch::is_found() {
  if (!found.empty()) return true;
  if (!changes || !changes.ready()) return false;
  for (size_t i = 0; i < pointers.size(); ++i) found.push_back(changes[i]);
  changes = FoundChanges();
  return true;
}

WrittenParts LearntLaunch::parts() const {
  WrittenParts parts;
  for (size_t i = 0; i < pointers.size(); ++i) {
    if (found[i].changed > 0) parts.push_back({pointers[i], ~found[i].complement_of_begin, found[i].end});
  }
  std::ranges::sort(parts);
  return parts;
}

bool LearntLaunch::is_sparse() const {
  uint64_t all = 0, changed = 0;
  for (const FoundInPiece& piece : found) {
    if (piece.changed > 0) all += piece.end - ~piece.complement_of_begin;
    changed += piece.units() * kChangedUnit;
  }
  return changed < all / 20 * 19;
}

// The last bytes that it wrote may have been there before, as the exponents of numbers that change little.
bool LearntLaunch::is_cut() const {
  for (size_t i = 0; i < pointers.size(); ++i) {
    if (cut[i] > 0 && found[i].changed > 0 && found[i].end > cut[i] / 16 * 15) return true;
  }
  return false;
}

// A launch that wrote more than was compared teaches only that it did.
void LaunchVariant::add(const LearntLaunch& launch) {
  if (launch.is_cut()) {
    constexpr uint64_t kMost = uint64_t{1} << 40;
    bytes_to_compare_ = std::min(8 * bytes_to_compare_, kMost);
    return;
  }
  ++learnt_;
  is_odd_ |= std::ranges::any_of(launch.found, [](const FoundInPiece& found) { return found.has_addresses(); });
  is_sparse_ = launch.is_sparse();
  add_parts(parts_, launch.parts());
  parts_entry.reset();
}

// Takes over what was learnt long enough before this row.
void LaunchVariant::settle(uint64_t row) {
  while (!learning_.empty() && learning_.front()->row + kRowsUntilLearnt <= row) {
    LearntLaunch& launch = *learning_.front();
    if (!launch.has_failed && !wait_for(launch)) return forget();
    if (!launch.has_failed) add(launch);
    learning_.erase(learning_.begin());
  }
}

const WrittenParts* LaunchVariant::parts_for(uint64_t row) {
  settle(row);
  const int64_t before = launches_++;
  constexpr int64_t kEnough = 1, kEnoughOfNothing = 8;
  is_known_ |= learnt_ >= (parts_.empty() ? kEnoughOfNothing : kEnough);
  if (!is_known_ || is_odd_ || is_to_be_learnt_from(before)) return nullptr;
  return &parts_;
}

ChangedWords FunctionLaunches::changes_of(const LaunchVariant& variant, const LaunchWords& words) {
  ChangedWords changes;
  if (words.bytes == variant.bytes) return changes;  // nearly all are
  for (size_t i = 0; i < words_in(words.bytes); ++i) {
    if (i < variant.unused_.size() && variant.unused_[i]) continue;
    const uint64_t word = word_in(words.bytes, i * kWord);
    if (word != word_in(variant.bytes, i * kWord)) changes.emplace_back(i * kWord, word);
  }
  return changes;
}

ChangedWords FunctionLaunches::changes_of(const LaunchVariant& kind, std::span<const std::byte> parameters,
                                          MemoryMap& memory) {
  ChangedWords changes;
  for (size_t i = 0; i < kind.indifferent_.size(); ++i) {
    if (!kind.is_indifferent(i) || kind.unused_[i]) continue;
    const uint64_t word = word_in(parameters, i * kWord), first = word_in(kind.bytes, i * kWord);
    if (word == first) continue;
    const uint64_t normalized = is_address(word, memory) ? spool::TrailRow::kAddress : word;
    if (normalized != first) changes.emplace_back(i * kWord, normalized);
  }
  return changes;
}

const LaunchVariant* FunctionLaunches::kind_of(std::span<const std::byte> parameters) const {
  const auto kind = std::ranges::find_if(
      kinds_, [&](const LaunchVariant* known) { return known->has_all_but_addresses(parameters); });
  return kind == kinds_.end() || (*kind)->has_exceptions_ ? nullptr : *kind;
}

// Returns whether these parameters equal those of the variant's first launch, except for indifferent halves of words.
bool LaunchVariant::has(const std::vector<std::byte>& words) const {
  if (words.size() != bytes.size()) return false;
  if (indifferent_.empty()) return words == bytes;
  for (size_t i = 0; i < indifferent_.size(); ++i) {
    if (((word_in(bytes, i * kWord) ^ word_in(words, i * kWord)) & ~indifferent_[i]) != 0) return false;
  }
  return true;
}

bool LaunchVariant::has_all_but_addresses(std::span<const std::byte> words) const {
  if (words.size() != bytes.size()) return false;
  for (size_t i = 0; i < indifferent_.size(); ++i) {
    const uint64_t first = word_in(bytes, i * kWord);
    const uint64_t differs = (first ^ word_in(words, i * kWord)) & ~indifferent_[i];
    if (differs != 0 && first != spool::TrailRow::kAddress) return false;
  }
  return true;
}

// A place that decides nothing, and holds an address in one launch and a number in another, is unused. An address in
// place of 0 is an optional parameter.
void LaunchVariant::note_unused(const std::vector<std::byte>& words) {
  for (size_t i = 0; i < unused_.size(); ++i) {
    const uint64_t word = word_in(words, i * kWord), first = word_in(bytes, i * kWord);
    const bool is_one_address = (word == spool::TrailRow::kAddress) != (first == spool::TrailRow::kAddress);
    if (is_one_address && word != 0 && first != 0 && is_indifferent_as_a_whole(i)) unused_[i] = true;
  }
}

// Notes that a launch with this half of a word wrote equal parts. Returns whether enough launches did: words in unused
// places of a kernel's structures hold what was on the stack before, and that may look like a size or an address. Many
// places hold one of two values, in ever new combinations. A size may be one of two as well, and what it decides may
// have been in memory already: so it takes many launches, unless there are several values.
bool LaunchVariant::is_seen_to_differ(size_t half, uint32_t value, bool is_of_address) {
  constexpr uint8_t kEnoughLaunches = 16;
  seen_to_differ_.resize(2 * words_in(bytes));
  auto& [values, count, launches] = seen_to_differ_[half];
  const auto end = values.begin() + count;
  const bool is_new = is_of_address || std::find(values.begin(), end, value) == end;
  if (count < kEnoughValues && is_new) values[count++] = value;
  if (launches < kEnoughLaunches) ++launches;
  return launches >= kEnoughLaunches || count >= kEnoughValues;
}

// Two launches with other parameters write the same: then what differs in them does not decide what is written while
// the rest is equal. If it may be a size or an address, more than two launches have to show it: the last bytes
// that they wrote may have been there before. Random numbers have a seed and a place, which are small as well, but
// sizes stand in more words than that. Returns whether `joining` is of this kind now.
bool FunctionLaunches::join(LaunchVariant& kind, const LaunchVariant& joining) const {
  if (joining.bytes.size() != kind.bytes.size() || !may_be_same(joining.parts_, kind.parts_) || joining.is_odd_ ||
      kind.is_odd_)
    return false;
  constexpr int kMostOfRandom = 3;
  const bool is_same = are_same(joining.parts_, kind.parts_);
  std::vector<uint64_t> indifferent = kind.indifferent_;
  indifferent.resize(words_in(joining.bytes));
  int sizes = 0;
  bool are_seen = true, are_sizes = true;
  for (size_t i = 0; i < 2 * indifferent.size(); ++i) {
    const uint32_t a = half_in(joining.bytes, i), b = half_in(kind.bytes, i);
    if (a == b || (indifferent[i / 2] & bits_of(i)) != 0) continue;
    indifferent[i / 2] |= bits_of(i);
    const bool has_address = is_address(joining.bytes, i) || is_address(kind.bytes, i);
    if (!has_address && !may_be_size(a, b)) continue;
    are_sizes &= !has_address;
    ++sizes;
    are_seen &= is_same && kind.is_seen_to_differ(i, a, is_address(joining.bytes, i));
  }
  if (!are_seen && !(draws_random_numbers_ && are_sizes && sizes <= kMostOfRandom)) return false;
  const bool is_wider = kind.indifferent_ != indifferent;
  kind.indifferent_ = std::move(indifferent);
  kind.unused_.resize(kind.indifferent_.size());
  kind.note_unused(joining.bytes);
  add_parts(kind.parts_, joining.parts_);
  kind.parts_entry.reset();
  if (is_wider) find_exceptions(kind);
  return true;
}

// Launches may differ as those of the kind do, and yet write other parts: their sizes differ in a word that decided
// nothing so far.
void FunctionLaunches::find_exceptions(LaunchVariant& kind) const {
  for (size_t i = 0; i < compared_ && !kind.has_exceptions_; ++i) {
    const LaunchVariant& variant = *variants_[i];
    const bool is_its_own = &variant == &kind || variant.parts_.empty() || may_be_same(variant.parts_, kind.parts_);
    kind.has_exceptions_ = !is_its_own && kind.has(variant.bytes);
  }
}

void FunctionLaunches::join_alike(uint64_t row) {
  constexpr size_t kMostBack = 64, kMostAlike = 8, kMostKinds = 64;
  for (; compared_ < variants_.size(); ++compared_) {
    LaunchVariant& joining = *variants_[compared_];
    joining.settle(row);
    if (!joining.learning_.empty()) break;  // and those after it came later
    bytes_to_compare_ = std::max(bytes_to_compare_, joining.bytes_to_compare_);
    if (joining.learnt_ == 0 || joining.parts_.empty()) continue;
    const auto take = [&](LaunchVariant& kind) {
      const bool takes = &kind != &joining && kind.learnt_ > 0 && join(kind, joining);
      if (!takes) return false;
      ++version_;
      by_hash_[hash_of(joining.bytes)] = &kind;
      return true;
    };
    if (std::ranges::any_of(kinds_, [&](LaunchVariant* kind) { return take(*kind); })) continue;
    for (LaunchVariant* kind : kinds_) kind->has_exceptions_ |= kind->has(joining.bytes);
    size_t alike = 0;  // how many wrote equal parts
    for (size_t i = compared_ - std::min(compared_, kMostBack); i < compared_ && kinds_.size() < kMostKinds; ++i) {
      alike += may_be_same(variants_[i]->parts_, joining.parts_);
      if (alike > kMostAlike) break;
      if (!take(*variants_[i])) continue;
      kinds_.push_back(variants_[i].get());
      break;
    }
  }
}

// Returns null if there is none.
LaunchVariant* FunctionLaunches::find(const std::vector<std::byte>& bytes) const {
  const auto known = by_hash_.find(hash_of(bytes));
  if (known != by_hash_.end()) return known->second;
  const auto kind = std::ranges::find_if(kinds_, [&](const LaunchVariant* joining) { return joining->has(bytes); });
  if (kind == kinds_.end()) return nullptr;
  (*kind)->note_unused(bytes);
  return *kind;
}

LaunchVariant& FunctionLaunches::variant_of(const LaunchWords& words, uint64_t row) {
  constexpr size_t kMostVariants = 4096;
  if (variants_.size() >= kMostVariants) {
    // A program that runs for days learns again what is forgotten here.
    by_hash_.clear();
    kinds_.clear();
    variants_.clear();
    compared_ = 0;
    ++version_;
  }
  LaunchVariant* known = find(words.bytes);
  if (known == nullptr && compared_ < variants_.size()) {
    join_alike(row);
    known = find(words.bytes);
  }
  is_new_ = known == nullptr;
  if (known != nullptr) return *known;
  variants_.push_back(std::make_unique<LaunchVariant>());
  variants_.back()->bytes = words.bytes;
  variants_.back()->bytes_to_compare_ = bytes_to_compare_;
  by_hash_[hash_of(words.bytes)] = variants_.back().get();
  if (variants_.size() >= kMostVariants) ++version_;  // the next call finds none
  return *variants_.back();
}

}  // namespace msda::record
