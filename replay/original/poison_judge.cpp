#include "replay/original/poison_judge.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "analysis/numbers/tensor.h"
#include "recorder/text/words.h"
#include "replay/original/original_result.h"

namespace msda::replay {
namespace {

using Contents = PoisonSetting::Contents;
using Memory = PoisonSetting::Memory;

std::string of_elements(int64_t some, int64_t all) {
  return fmt::format("{} of {}", some, text::counted(all, "element"));
}

}  // namespace

AtomicsOfCode atomics_of(const capture::KernelImage& code) {
  const auto fact = [&](const char* name) -> std::optional<int64_t> {
    const auto found = code.facts.find(name);
    return found == code.facts.end() ? std::nullopt : std::optional(found->second);
  };
  AtomicsOfCode atomics;
  if (const auto count = fact("atomics")) atomics.any = *count > 0 ? AtomicsOfCode::kSome : AtomicsOfCode::kNone;
  atomics.shared = atomics.any == AtomicsOfCode::kSome && fact("shared_atomics").value_or(0) > 0;
  return atomics;
}

PoisonJudge::PoisonJudge(const std::vector<PoisonSetting>& settings, std::vector<PoisonedOutput> outputs,
                         KeptResults kept)
    : settings_(settings), outputs_(std::move(outputs)), kept_(std::move(kept)), ranges_(settings.size()) {}

// A byte that nobody had written is not written by the launch either if it keeps what it held as recorded, and what the
// setting filled it with. It is no result, and here holds what it held as recorded.
void PoisonJudge::take_out_unwritten(const PoisonSetting& setting, size_t number, RepeatedLaunch::Range& range) const {
  const PoisonedOutput& output = outputs_[number];
  const Range& base = ranges_[0][number];
  const auto fill = std::byte{fill_byte(setting.contents)};
  for_each_run(output.unwritten, [&](uint64_t begin, uint64_t end) {
    for (uint64_t i = begin; i < end; ++i) {
      const std::byte held = output.before[i];
      if (range.lowest[i] != fill || range.highest[i] != fill) continue;
      if (base.lowest[i] == held && base.highest[i] == held) range.lowest[i] = range.highest[i] = held;
    }
  });
}

void PoisonJudge::add(size_t setting, std::vector<RepeatedLaunch::Range> ranges) {
  const PoisonSetting& changed = settings_[setting];
  for (size_t i = 0; i < ranges.size(); ++i) {
    RepeatedLaunch::Range& given = ranges[i];
    if (changed.memory == Memory::kUnwritten && changed.number == outputs_[i].buffer) {
      take_out_unwritten(changed, i, given);
    }
    Range& range = ranges_[setting].emplace_back();
    range.distinct = given.distinct;
    if (setting == 0) {
      first_.push_back(std::move(given.first));
    } else if (std::ranges::equal(given.lowest, ranges_[0][i].lowest) &&
               std::ranges::equal(given.highest, ranges_[0][i].highest)) {
      continue;
    }
    range.lowest = kept_.keep(std::move(given.lowest));
    range.highest = kept_.keep(std::move(given.highest));
  }
}

// One output.
class PoisonJudge::OfTensor {
 public:
  OfTensor(const PoisonJudge& all, size_t number)
      : all_(all),
        number_(number),
        output_(all.outputs_[number]),
        size_(static_cast<size_t>(kernels::bytes_of(output_.type))) {
    elements_ = static_cast<int64_t>(output_.before.size() / size_);
    static_cast<tensors::Description&>(tensor_) = output_;
    spreads_.resize(all.settings_.size());
    depends_.resize(static_cast<size_t>(elements_));
    adds_.resize(static_cast<size_t>(elements_));
    varies_.resize(static_cast<size_t>(elements_));
  }

  PoisonTensor judge(AtomicsOfCode atomics, const FindOrders& orders) {
    look_within();
    look_across();
    tensor_.within = std::ranges::count(varies_, true);
    tensor_.across = std::ranges::count(depends_, true);
    if (tensor_.within > 0) judge_within(atomics, orders);
    if (tensor_.across > 0 && tensor_.verdict < PoisonVerdict::kReadsUnwritten) judge_across();
    give_example();
    return std::move(tensor_);
  }

 private:
  struct Spread {
    double widest = 0;   // of an element over the launches of the setting; infinite where only some gave NaN
    double largest = 0;  // finite magnitude
  };

  bool ran(size_t setting) const { return !all_.ranges_[setting].empty(); }
  const Range& range(size_t setting) const {
    const Range& own = all_.ranges_[setting][number_];
    return own.lowest.empty() ? all_.ranges_[0][number_] : own;
  }
  bool is_fixed(size_t setting) const { return all_.ranges_[setting][number_].distinct == 1; }
  bool same_bits(std::span<const std::byte> a, std::span<const std::byte> b, int64_t flat) const {
    const size_t at = static_cast<size_t>(flat) * size_;
    return std::memcmp(a.data() + at, b.data() + at, size_) == 0;
  }
  double at(std::span<const std::byte> bytes, int64_t flat) const {
    return analysis::Tensor{bytes.data(), output_.type, {}}.at(flat);
  }
  // Returns the setting that changes what this output held; nothing if it did not run.
  std::optional<size_t> own(Contents contents) const {
    for (size_t i = 0; i < all_.settings_.size(); ++i) {
      const PoisonSetting& setting = all_.settings_[i];
      if (setting.memory == Memory::kOutput && setting.number == number_ && setting.contents == contents && ran(i)) {
        return i;
      }
    }
    return std::nullopt;
  }

  void look_within() {
    for (size_t i = 0; i < all_.settings_.size(); ++i) {
      if (!ran(i)) continue;
      const Range& setting_range = range(i);
      tensor_.varies_within += is_fixed(i) ? 0 : 1;
      for (int64_t flat = 0; flat < elements_; ++flat) {
        const double low = at(setting_range.lowest, flat), high = at(setting_range.highest, flat);
        for (const double x : {low, high}) {
          if (std::isfinite(x)) spreads_[i].largest = std::max(spreads_[i].largest, std::abs(x));
        }
        if (same_bits(setting_range.lowest, setting_range.highest, flat)) continue;
        varies_[static_cast<size_t>(flat)] = true;
        const double apart = high - low;
        spreads_[i].widest =
            std::max(spreads_[i].widest, std::isnan(apart) ? std::numeric_limits<double>::infinity() : apart);
      }
      tensor_.spread = std::max(tensor_.spread, spreads_[i].widest);
    }
  }

  // Returns whether an element differs between two settings, by more than it differs within one.
  bool differs(size_t a, size_t b, int64_t flat) const {
    const Range &first = range(a), &second = range(b);
    if (is_fixed(a) && is_fixed(b)) return !same_bits(first.lowest, second.lowest, flat);
    const double a_low = at(first.lowest, flat), a_high = at(first.highest, flat), b_low = at(second.lowest, flat),
                 b_high = at(second.highest, flat);
    const auto is_nan = [](double low, double high) { return std::isnan(low) && std::isnan(high); };
    const auto has_nan = [](double low, double high) { return std::isnan(low) || std::isnan(high); };
    if (has_nan(a_low, a_high) || has_nan(b_low, b_high)) {
      return is_nan(a_low, a_high) ? !has_nan(b_low, b_high) : is_nan(b_low, b_high) && !has_nan(a_low, a_high);
    }
    // Sums in random orders give ranges that need not touch, but are no farther apart than the ranges are wide.
    constexpr double kTimes = 8;
    const double limit = kTimes * std::max(spreads_[a].widest, spreads_[b].widest);
    return b_low - a_high > limit || a_low - b_high > limit;
  }

  void look_across() {
    const auto zero = own(Contents::kZero), nan = own(Contents::kNan), pattern = own(Contents::kPattern);
    const auto fill = pattern ? fill_of(output_.type, elements_, Contents::kPattern) : std::vector<std::byte>();
    for (size_t i = 1; i < all_.settings_.size(); ++i) {
      if (!ran(i) || (&range(i) == &range(0) && is_fixed(i) == is_fixed(0))) continue;
      const bool is_own = all_.settings_[i].memory == Memory::kOutput && all_.settings_[i].number == number_;
      bool depends = false;
      for (int64_t flat = 0; flat < elements_; ++flat) {
        if (!differs(0, i, flat)) continue;
        if (is_own && is_never_written(flat)) continue;
        const auto place = static_cast<size_t>(flat);
        if (is_own && is_added_to(zero, nan, pattern, fill, flat)) {
          adds_[place] = true;
          // What the caller set to zero may be added to.
          if (at(output_.before, flat) == 0) continue;
        }
        depends = depends_[place] = true;
      }
      if (depends && std::ranges::find(tensor_.varies_across, all_.settings_[i].name) == tensor_.varies_across.end()) {
        tensor_.varies_across.push_back(all_.settings_[i].name);
      }
    }
    for (int64_t flat = 0; flat < elements_; ++flat) {
      tensor_.never_written += is_never_written(flat);
      if (!adds_[static_cast<size_t>(flat)]) continue;
      ++tensor_.adds;
      tensor_.adds_to_nonzero += at(output_.before, flat) != 0;
    }
  }

  // Returns whether the element keeps the bits that it held, whatever these are.
  bool is_never_written(int64_t flat) const {
    int changed = 0;
    for (const Contents contents : {Contents::kZero, Contents::kNan, Contents::kPattern}) {
      const auto setting = own(contents);
      if (!setting) continue;
      const auto& fill = fills_[static_cast<size_t>(contents)].empty()
                             ? fills_[static_cast<size_t>(contents)] = fill_of(output_.type, elements_, contents)
                             : fills_[static_cast<size_t>(contents)];
      if (!same_bits(range(*setting).lowest, fill, flat) || !same_bits(range(*setting).highest, fill, flat))
        return false;
      ++changed;
    }
    return changed > 1;
  }

  // Returns whether the kernel adds to what the element held: the pattern comes on top of what zero gives, and NaN
  // gives NaN.
  bool is_added_to(std::optional<size_t> zero, std::optional<size_t> nan, std::optional<size_t> pattern,
                   std::span<const std::byte> fill, int64_t flat) const {
    if (!zero || !pattern) return false;
    if (nan && !(std::isnan(at(range(*nan).lowest, flat)) && std::isnan(at(range(*nan).highest, flat)))) return false;
    // A sum of many addends is rounded otherwise if it begins elsewhere.
    const double roundings = size_ == 2 ? 16 : 64, base = at(fill, flat);
    const double limit = roundings * epsilon_ * (std::abs(base) + spreads_[*zero].largest) +
                         std::max(spreads_[*zero].widest, spreads_[*pattern].widest);
    const auto near = [&](std::span<const std::byte> with, std::span<const std::byte> without) {
      return std::abs(at(with, flat) - (at(without, flat) + base)) <= limit;
    };
    return near(range(*pattern).lowest, range(*zero).lowest) && near(range(*pattern).highest, range(*zero).highest);
  }

  // Returns whether launches differ by no more than rounding, in every setting.
  bool is_rounding() const {
    const double roundings = size_ == 2 ? 32 : 1024;
    return std::ranges::all_of(
        spreads_, [&](const Spread& spread) { return spread.widest <= roundings * epsilon_ * spread.largest; });
  }

  bool varies_only_where_it_adds() const {
    for (size_t i = 0; i < varies_.size(); ++i) {
      if (varies_[i] && !adds_[i]) return false;
    }
    return true;
  }

  void judge_within(AtomicsOfCode atomics, const FindOrders& orders) {
    const std::string varying = of_elements(tensor_.within, elements_) + " differ between equal launches";
    const auto give = [&](PoisonVerdict verdict, std::string why) {
      tensor_.verdict = verdict;
      tensor_.why = std::move(why);
    };
    if (atomics.any == AtomicsOfCode::kNone) {
      return give(PoisonVerdict::kRace, varying + ", and the kernel has no atomics");
    }
    // Atomics may decide on more than the order of sums, which the outputs do not show.
    const char* const or_atomics =
        atomics.any == AtomicsOfCode::kSome ? ": a race, or an order that the kernel's atomics decide" : "";
    if (!kernels::is_float(output_.type)) {
      return give(PoisonVerdict::kRace, varying + ", in integers" + or_atomics);
    }
    tensor_.orders = orders(output_, all_.first_[number_]);
    if (tensor_.orders && tensor_.orders->impossible > 0) {
      return give(PoisonVerdict::kRace, fmt::format("{}, and no order of additions gives {} of {} pixels", varying,
                                                    tensor_.orders->impossible, tensor_.orders->pixels));
    }
    if (tensor_.orders && tensor_.orders->explained > 0) {
      return give(PoisonVerdict::kOrderOnly, fmt::format("{}; an order of additions gives {} of {} pixels, none is "
                                                         "without one",
                                                         varying, tensor_.orders->explained, tensor_.orders->pixels));
    }
    // Sums of atomics may be made elsewhere, in shared memory or in scratch memory, and written by ordinary stores.
    const bool stores_sums = atomics.shared || (atomics.any == AtomicsOfCode::kSome && is_rounding());
    if (!varies_only_where_it_adds() && !stores_sums) {
      return give(PoisonVerdict::kRace,
                  varying + ", also where the kernel does not add to what was there" + or_atomics);
    }
    if (!is_rounding()) {
      return give(PoisonVerdict::kRace, fmt::format("{}, by up to {:.3g}, more than rounding explains{}", varying,
                                                    tensor_.spread, or_atomics));
    }
    give(PoisonVerdict::kOrderOnly,
         fmt::format("{}, by up to {:.3g}, as sums in another order do; the addends are not known{}", varying,
                     tensor_.spread,
                     atomics.any == AtomicsOfCode::kUnknown ? ", nor whether the kernel has atomics" : ""));
  }

  void judge_across() {
    tensor_.verdict = PoisonVerdict::kReadsUnwritten;
    tensor_.why = fmt::format("{} depend on what {} held before the launch", of_elements(tensor_.across, elements_),
                              fmt::join(tensor_.varies_across, " and "));
    if (tensor_.adds_to_nonzero > 0) {
      tensor_.why +=
          fmt::format("; it adds to {}, which was not zero", of_elements(tensor_.adds_to_nonzero, elements_));
    }
  }

  void give_example() {
    const auto& elements = tensor_.verdict == PoisonVerdict::kReadsUnwritten ? depends_ : varies_;
    const auto found = std::ranges::find(elements, true);
    if (found == elements.end()) return;
    tensor_.example = found - elements.begin();
    for (size_t i = 0; i < all_.settings_.size(); ++i) {
      if (!ran(i)) continue;
      tensor_.values.push_back({i, at(range(i).lowest, *tensor_.example), at(range(i).highest, *tensor_.example)});
    }
  }

  const PoisonJudge& all_;
  const size_t number_;
  const PoisonedOutput& output_;
  const size_t size_;  // bytes of an element
  const double epsilon_ = 2 * analysis::Precision::of(output_.type).unit;
  int64_t elements_ = 0;
  PoisonTensor tensor_;
  std::vector<Spread> spreads_;                // by setting
  std::vector<bool> depends_, adds_, varies_;  // by element
  mutable std::vector<std::byte> fills_[4];    // by contents, made when they are needed
};

std::vector<PoisonTensor> PoisonJudge::judge(AtomicsOfCode atomics, const FindOrders& orders) const {
  std::vector<PoisonTensor> tensors;
  for (size_t i = 0; i < outputs_.size(); ++i) tensors.push_back(OfTensor(*this, i).judge(atomics, orders));
  return tensors;
}

}  // namespace msda::replay
