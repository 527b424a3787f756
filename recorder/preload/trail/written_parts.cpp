#include "recorder/preload/trail/written_parts.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <thread>

namespace msda::record {
namespace {

constexpr uint64_t kRowsUntilLearnt = 64;
constexpr size_t kWord = sizeof(uint64_t);

// The device has nearly always found it long before. Nothing would be learnt from a launch that never ends.
bool wait_for(LearntLaunch& launch) {
  constexpr std::chrono::seconds kPatience{2};
  const auto begin = std::chrono::steady_clock::now();
  while (!launch.is_found()) {
    if (std::chrono::steady_clock::now() - begin > kPatience) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  return true;
}

// The first launch, and a few later ones, ever more seldom: it may have found in memory what it wrote.
bool is_to_be_learnt_from(int64_t launches) {
  if (launches == 1) return false;
  return (launches & (launches - 1)) == 0 && std::countr_zero(static_cast<uint64_t>(launches)) % 2 == 0;
}

uint64_t word_at(const std::vector<std::byte>& bytes, size_t word) {
  uint64_t value = 0;
  const size_t at = word * kWord;
  std::memcpy(&value, bytes.data() + at, std::min(kWord, bytes.size() - at));
  return value;
}

// Of two halves of words.
bool may_be_size(uint64_t a, uint64_t b) {
  constexpr uint32_t kMost = 1 << 28;
  const auto x = static_cast<uint32_t>(a), y = static_cast<uint32_t>(b);
  return x != y && x < kMost && y < kMost;
}

size_t words_in(const std::vector<std::byte>& bytes) { return (bytes.size() + kWord - 1) / kWord; }

}  // namespace

std::string text_of(const WrittenParts& parts) {
  std::string text;
  for (const WrittenPart& part : parts) {
    constexpr uint64_t kUnit = 16;
    text += (text.empty() ? "" : " ") + std::to_string(part.pointer) + "+" +
            std::to_string(part.begin / kUnit * kUnit) + ":" + std::to_string((part.end + kUnit - 1) / kUnit * kUnit);
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

bool LearntLaunch::is_cut() const {
  for (size_t i = 0; i < pointers.size(); ++i) {
    if (cut[i] > 0 && found[i].changed > 0 && found[i].end == cut[i]) return true;
  }
  return false;
}

// From a launch that wrote more than was compared nothing is learnt but that.
void LaunchVariant::add(const LearntLaunch& launch) {
  if (launch.is_cut()) {
    constexpr uint64_t kMost = uint64_t{1} << 40;
    bytes_to_compare_ = std::min(8 * bytes_to_compare_, kMost);
    return;
  }
  ++learnt_;
  is_odd_ |= std::ranges::any_of(launch.found, [](const FoundInPiece& found) { return found.has_addresses != 0; });
  uint64_t all = 0, changed = 0;
  for (const FoundInPiece& found : launch.found) {
    if (found.changed > 0) all += found.end - ~found.complement_of_begin;
    changed += found.changed;
  }
  is_dense_ = changed > all / 5 * 4;
  for (const WrittenPart& part : launch.parts()) {
    is_odd_ |= part.pointer == WrittenPart::kNoPointer;
    const auto same = std::ranges::find(parts_, part.pointer, &WrittenPart::pointer);
    if (same == parts_.end()) {
      parts_.push_back(part);
    } else {
      same->begin = std::min(same->begin, part.begin);
      same->end = std::max(same->end, part.end);
    }
  }
  std::ranges::sort(parts_);
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

std::vector<std::pair<uint32_t, uint64_t>> FunctionLaunches::changes_of(const LaunchVariant& variant,
                                                                        const LaunchWords& words) {
  std::vector<std::pair<uint32_t, uint64_t>> changes;
  for (size_t i = 0; i < words_in(words.bytes); ++i) {
    const uint64_t word = word_at(words.bytes, i);
    if (word != word_at(variant.bytes, i)) changes.emplace_back(i * kWord, word);
  }
  return changes;
}

uint64_t FunctionLaunches::hash_of(const std::vector<std::byte>& bytes) const {
  uint64_t hash = bytes.size();
  for (size_t i = 0; i < words_in(bytes); ++i) {
    if (i < is_indifferent_.size() && is_indifferent_[i]) continue;
    hash = (hash ^ word_at(bytes, i)) * 0x9E3779B97F4A7C15;
    hash ^= hash >> 29;
  }
  return hash;
}

// Two launches with other parameters that write equal parts: the words that differ decide nothing about them. Not so if
// the last bytes that each wrote may have been there before, as with truth values, and a word may be a size. Whether
// there is a new one.
bool FunctionLaunches::compare(const LaunchVariant& one, const LaunchVariant& other) {
  if (one.bytes.size() != other.bytes.size() || one.parts_ != other.parts_ || one.is_odd_ || other.is_odd_)
    return false;
  bool has_new = false;
  const bool are_dense = one.is_dense_ && other.is_dense_;
  for (size_t i = 0; i < words_in(one.bytes) && !are_dense; ++i) {
    const uint64_t a = word_at(one.bytes, i), b = word_at(other.bytes, i);
    if (a != b && (may_be_size(a, b) || may_be_size(a >> 32, b >> 32))) return false;
  }
  for (size_t i = 0; i < words_in(one.bytes); ++i) {
    const uint64_t a = word_at(one.bytes, i), b = word_at(other.bytes, i);
    if (a == b || a == LaunchWords::kAddress || b == LaunchWords::kAddress) continue;
    has_new |= !is_indifferent_[i];
    is_indifferent_[i] = true;
  }
  return has_new;
}

void FunctionLaunches::find_indifferent_words(uint64_t row) {
  constexpr size_t kMostBack = 8;
  bool has_new = false;
  for (; compared_ < variants_.size(); ++compared_) {
    LaunchVariant& one = *variants_[compared_];
    one.settle(row);
    if (one.learnt_ == 0 && !one.is_odd_) break;  // and those after it came later
    if (one.parts_.empty()) continue;
    for (size_t i = compared_ - std::min(compared_, kMostBack); i < compared_; ++i) {
      has_new |= variants_[i]->learnt_ > 0 && !variants_[i]->parts_.empty() && compare(*variants_[i], one);
    }
  }
  if (!has_new) return;
  by_hash_.clear();
  for (const auto& variant : variants_) by_hash_.try_emplace(hash_of(variant->bytes), variant.get());
}

LaunchVariant& FunctionLaunches::variant_of(const LaunchWords& words, uint64_t row) {
  constexpr size_t kMostVariants = 4096;
  if (is_indifferent_.empty()) is_indifferent_.resize(words_in(words.bytes) + 1);
  const auto find = [&] {
    const auto found = by_hash_.find(hash_of(words.bytes));
    return found != by_hash_.end() ? found->second : nullptr;
  };
  LaunchVariant* known = find();
  if (known == nullptr && compared_ < variants_.size()) {
    find_indifferent_words(row);
    known = find();
  }
  is_new_ = known == nullptr;
  if (known != nullptr) return *known;
  if (variants_.size() >= kMostVariants) {  // of a program that runs for days: what it learnt, it learns again
    variants_.clear();
    by_hash_.clear();
    compared_ = 0;
  }
  variants_.push_back(std::make_unique<LaunchVariant>());
  variants_.back()->bytes = words.bytes;
  by_hash_[hash_of(words.bytes)] = variants_.back().get();
  return *variants_.back();
}

}  // namespace msda::record
