// Which products, and which sums, a kernel's recorded results are made of. A pixel with one addition holds the addend
// itself, so it shows the arithmetic whatever the order; a few more hardly matter.
#include <algorithm>
#include <map>

#include "analysis/order/find_orders.h"

namespace msda::analysis {
namespace {

constexpr size_t kProbes = 96, kMostProbed = 7;
// Where every pixel has more additions, as in volumes that are made larger, some of the fewest do; each takes longer.
constexpr size_t kLargeProbes = 12, kMostOfLarge = 15;

struct Probes {
  std::vector<int64_t> targets;
  std::vector<int64_t> families;  // of those targets
};

// Returns the targets with the fewest addends, `most` at most, of some families spread over all.
Probes choose_probes(const Additions& additions, const FactorArithmetic& arithmetic, size_t most, size_t count) {
  struct Probe {
    size_t addends;
    int64_t target, family;
  };
  constexpr int64_t kMostFamilies = 12;
  const int64_t all = additions.family_count(), some = std::min(all, kMostFamilies);
  std::vector<Probe> found;
  for (int64_t i = 0; i < some; ++i) {
    const int64_t family = i * all / some;
    const auto addends = additions.shared_addends(family, arithmetic);
    std::vector<Probe> here;
    for (const auto& of_target : by_target(addends)) {
      if (of_target.size() <= most) here.push_back({of_target.size(), of_target.front().target, family});
    }
    std::ranges::stable_sort(here, {}, &Probe::addends);
    here.resize(std::min(here.size(), count));
    found.insert(found.end(), here.begin(), here.end());
  }
  std::ranges::stable_sort(found, {}, &Probe::addends);
  // Takes some of each family among equally good probes.
  std::vector<Probe> chosen;
  const size_t step = std::max<size_t>(1, static_cast<size_t>(std::ranges::count(found, 1u, &Probe::addends)) / count);
  for (size_t i = 0; i < found.size() && chosen.size() < count; i += step) chosen.push_back(found[i]);
  Probes probes;
  for (const Probe& probe : chosen) {
    probes.targets.push_back(probe.target);
    probes.families.push_back(probe.family);
  }
  return probes;
}

// Returns the addends of the probes by one arithmetic of the factors.
std::vector<std::vector<SharedAddend>> addends_of(const Additions& additions, const Probes& probes,
                                                  const FactorArithmetic& arithmetic) {
  std::vector<std::vector<SharedAddend>> all(probes.targets.size());
  std::map<int64_t, std::vector<SharedAddend>> by_family;
  for (const int64_t family : probes.families) by_family[family];
  for (auto& [family, addends] : by_family) {
    addends = additions.shared_addends(family, arithmetic);
    for (const auto& of_target : by_target(addends)) {
      for (size_t i = 0; i < all.size(); ++i) {
        if (probes.families[i] == family && probes.targets[i] == of_target.front().target) {
          all[i].assign(of_target.begin(), of_target.end());
        }
      }
    }
  }
  return all;
}

// Returns the types in which sums may be kept for a result of this type.
std::vector<SumType> sum_types(msda_dtype stored, msda_dtype arithmetic) {
  if (arithmetic_of(stored) == stored) return {{stored, stored}};
  return {{stored, stored}, {arithmetic, stored}};
}

class ArithmeticFinder {
 public:
  ArithmeticFinder(const OrderMaterial& material, const SearchLimits& limits)
      : material_(material),
        limits_(limits),
        arithmetics_(material.additions->factor_arithmetics()),
        products_(all_products(material.additions->factor_names(), material.known.products,
                               material.additions->last_divides())),
        probes_(choose_probes(*material.additions, arithmetics_.front(), kMostProbed, kProbes)) {
    limits_.exhaustive = kMostProbed;
    limits_.steps = 20'000;
    limits_.moves = 0;
    if (probes_.targets.empty()) {
      probes_ = choose_probes(*material.additions, arithmetics_.front(), kMostOfLarge, kLargeProbes);
      limits_.exhaustive = kMostOfLarge;
      limits_.steps = 200'000;
    }
    for (const FactorArithmetic& arithmetic : arithmetics_) {
      addends_.push_back(addends_of(*material.additions, probes_, arithmetic));
    }
  }

  AdditionArithmetic run() {
    const size_t known = std::min(material_.known.products.size(), products_.size());
    const std::span<const Product> all(products_);
    AdditionArithmetic best = best_of(all.first(known), material_.known.is_exact, /*faults=*/false);
    if (!best.found) {
      AdditionArithmetic unusual = best_of(all.subspan(known), /*is_exact=*/false, /*faults=*/false);
      if (unusual.found) best = std::move(unusual);
    }
    // Most of the probes may have lost an addend.
    if (!best.found && material_.known.is_exact) best = best_of(all.first(known), /*is_exact=*/true, /*faults=*/true);
    return best;
  }

 private:
  AdditionArithmetic best_of(std::span<const Product> products, bool is_exact, bool faults) const {
    AdditionArithmetic best;
    best.fits = -1;  // so that the first is taken
    for (const SumType& sums : sum_types(material_.recorded.dtype, material_.call.arithmetic())) {
      for (size_t i = 0; i < arithmetics_.size(); ++i) {
        for (const Product& product : products) {
          AdditionArithmetic arithmetic{arithmetics_[i], product, sums, 0, 0, 0, false};
          count_fits(arithmetic, addends_[i], faults);
          // Single channels have orders by another arithmetic, too, by chance: what explains them together is nearer.
          if (std::pair(arithmetic.fits, arithmetic.whole) <= std::pair(best.fits, best.whole)) continue;
          best = std::move(arithmetic);
          if (best.whole == best.tried) break;
        }
      }
    }
    // An arithmetic that is nearly right explains most pixels, and would call the others faulty.
    const double share = is_exact ? 0.6 : 0.97;
    best.fits = std::max<int64_t>(best.fits, 0);
    best.found = best.fits > 0 && static_cast<double>(best.fits) >= share * static_cast<double>(best.tried);
    if (best.tried == 0) best.found = is_exact && !products.empty();  // nothing to try it on
    return best;
  }

  void count_fits(AdditionArithmetic& arithmetic, const std::vector<std::vector<SharedAddend>>& addends,
                  bool faults) const {
    for (const auto& of_target : addends) {
      if (of_target.empty()) continue;
      const TargetOrder order = order_of(material_, arithmetic, of_target, limits_, faults);
      const bool undecided = order.result.fit == OrderFit::kNotFound && limits_.exhaustive > kMostProbed;
      if (!order.finite || undecided) continue;
      ++arithmetic.tried;
      arithmetic.whole += order.result.fit == OrderFit::kFound;
      arithmetic.fits += order.result.fit == OrderFit::kFound || !order.parts.empty() || !order.faults.empty();
    }
  }

  const OrderMaterial& material_;
  SearchLimits limits_;
  std::vector<FactorArithmetic> arithmetics_;
  std::vector<Product> products_;
  Probes probes_;
  std::vector<std::vector<std::vector<SharedAddend>>> addends_;  // by arithmetic of the factors, by probe
};

}  // namespace

AdditionArithmetic find_addition_arithmetic(const OrderMaterial& material, const SearchLimits& limits) {
  return ArithmeticFinder(material, limits).run();
}

}  // namespace msda::analysis
