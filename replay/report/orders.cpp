#include "replay/report/orders.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "replay/base/json.h"

namespace msda::replay {

using analysis::AddendFault;
using analysis::OrderCounts;
using analysis::OrderFit;
using analysis::OrderReport;
using analysis::TargetOrder;

namespace {

Json to_json(const OrderCounts& counts) {
  return {{"elements", counts.elements},
          {"with_1_to_15", counts.with_1_to_15},
          {"explained_to_15", counts.explained_to_15},
          {"explained", counts.explained},
          {"unique", counts.unique},
          {"impossible", counts.impossible},
          {"in_parts", counts.in_parts},
          {"in_parts_to_15", counts.in_parts_to_15},
          {"lost", counts.lost},
          {"doubled", counts.doubled},
          {"not_found", counts.not_found},
          {"not_finite", counts.not_finite},
          {"out_of_time", counts.out_of_time}};
}

void add(const OrderCounts& more, OrderCounts& sum) {
  for (const auto member :
       {&OrderCounts::elements, &OrderCounts::with_1_to_15, &OrderCounts::explained_to_15, &OrderCounts::explained,
        &OrderCounts::unique, &OrderCounts::impossible, &OrderCounts::in_parts, &OrderCounts::lost,
        &OrderCounts::doubled, &OrderCounts::not_found, &OrderCounts::not_finite, &OrderCounts::out_of_time}) {
    sum.*member += more.*member;
  }
}

// Returns the elements of a target; its first.
std::vector<int64_t> elements_of(const FoundOrders& found, const TargetOrder& target) {
  return found.call->additions(found.gradient)->elements_of(target.target);
}

analysis::Index index_of(const FoundOrders& found, const TargetOrder& target) {
  return found.call->element_id(found.gradient, elements_of(found, target).front()).index;
}

// Returns what is to be looked at first: what is impossible, then what was not found, then the rest.
std::vector<const TargetOrder*> listed(const OrderReport& report, size_t most) {
  std::vector<const TargetOrder*> chosen;
  const auto add_all = [&](const auto& is_one) {
    for (const TargetOrder& target : report.targets) {
      if (chosen.size() < most && is_one(target)) chosen.push_back(&target);
    }
  };
  const auto has = [](OrderFit fit) { return [fit](const TargetOrder& target) { return target.result.fit == fit; }; };
  add_all([](const TargetOrder& t) { return t.result.fit == OrderFit::kImpossible && t.parts.empty(); });
  add_all([](const TargetOrder& t) { return t.result.fit == OrderFit::kImpossible && !t.parts.empty(); });
  add_all(has(OrderFit::kNotFound));
  add_all(has(OrderFit::kFound));
  return chosen;
}

Json to_json(const FoundOrders& found, const TargetOrder& target) {
  Json json = {{"index", index_of(found, target)},
               {"addends", target.addends},
               {"fit", name_of(target.result.fit)},
               {"unique", target.result.unique ? Json(*target.result.unique) : Json()},
               {"order", target.result.order},
               {"indices", target.launch_indices},
               {"parts", Json::array()},
               {"faults", Json::array()}};
  for (const auto& part : target.parts) json["parts"].push_back({{"channels", part.channels}, {"order", part.order}});
  for (const AddendFault& fault : target.faults) {
    json["faults"].push_back(
        {{"kind", fault.doubled ? "doubled" : "lost"}, {"number", fault.addend}, {"addend", fault.name}});
  }
  if (!target.finite) json["not_finite"] = true;
  return json;
}

Json to_json(const analysis::AdditionArithmetic& arithmetic) {
  return {{"found", arithmetic.found},
          {"product", arithmetic.product.name},
          {"factors", arithmetic.factors.name},
          {"factor_type", msda_dtype_name(arithmetic.factors.type)},
          {"sum_type", msda_dtype_name(arithmetic.sums.sum)},
          {"stored_type", msda_dtype_name(arithmetic.sums.stored)},
          {"fits", arithmetic.fits},
          {"tried", arithmetic.tried}};
}

Json to_json(const FoundOrders& found, size_t most) {
  const OrderReport& report = found.report;
  Json json = {{"id", found.invocation},
               {"operator", found.operator_name},
               {"kernel", found.kernel},
               {"tensor", name_of(found.gradient)},
               {"one_at_a_time", report.known.one_at_a_time},
               {"kernel_adds", report.known.text},
               {"arithmetic", to_json(report.arithmetic)},
               {"summary", to_json(report.counts)},
               {"inversions", {{"index", report.index_name}, {"pixels", report.inversions_from}}},
               {"pixels", Json::array()},
               {"atomics", to_json(found.atomics)},
               {"altered", found.altered}};
  json["inversions"]["bins"] = Json::array();
  for (const auto& bin : report.inversions) {
    json["inversions"]["bins"].push_back({{"nearest", bin.nearest},
                                          {"farthest", bin.farthest},
                                          {"pairs", bin.pairs},
                                          {"inverted", bin.inverted},
                                          {"share", bin.share()}});
  }
  for (const TargetOrder* target : listed(report, most)) json["pixels"].push_back(to_json(found, *target));
  return json;
}

std::string text_of_fault(const AddendFault& fault) {
  return fmt::format("{} was {}", fault.name, fault.doubled ? "added twice" : "lost");
}

// "grad_value[0,17,0,:]": which pixel; the text of its place, without the channel.
std::string place_of(const FoundOrders& found, const TargetOrder& target) {
  const int64_t flat = elements_of(found, target).front();
  std::vector<std::string> texts = found.call->text_of_place(found.gradient, flat);
  std::erase_if(texts, [](const std::string& text) { return text.starts_with("channel"); });
  return fmt::format("{}[{}] and its other channels: {}", name_of(found.gradient),
                     fmt::join(index_of(found, target), ","), fmt::join(texts, ", "));
}

// If no order gives the bits, that accuses a kernel which adds one addend at a time. Nobody knows whether an unnamed
// kernel does: bits that a lost or a doubled addend explains accuse it, others do not.
bool is_fault(const FoundOrders& found, const TargetOrder& target) {
  if (target.result.fit != OrderFit::kImpossible || !target.parts.empty()) return false;
  return found.report.known.one_at_a_time && (!found.kernel.empty() || !target.faults.empty());
}

void add_impossible(const FoundOrders& found, size_t most, Lines& lines) {
  size_t shown = 0, all = 0;
  for (const TargetOrder& target : found.report.targets) {
    if (!is_fault(found, target)) continue;
    if (++all > most) continue;
    ++shown;
    lines.add("error: no order of its {} addends gives the recorded bits", target.addends);
    lines.add_hanging(9, "  where: {}", place_of(found, target));
    constexpr size_t kMostFaults = 4;
    std::vector<std::string> texts;
    for (const AddendFault& fault : target.faults) {
      if (texts.size() < kMostFaults) texts.push_back(text_of_fault(fault));
    }
    if (texts.empty()) {
      lines.add_hanging(9, "  why:   not explained by one lost or one doubled addend either");
    } else {
      const size_t others = target.faults.size() - texts.size();
      lines.add_hanging(9, "  why:   as if {}{}", fmt::join(texts, ", or "),
                        others == 0 ? "" : fmt::format(", or {} others", others));
    }
  }
  if (all > shown) lines.add("  and {} other pixels (--list N shows N)", all - shown);
}

void add_inversions(const OrderReport& report, Lines& lines) {
  if (report.inversions_from == 0) return;
  lines.add(
      "  schedule: pairs of additions in the order opposite to that of their {} numbers, by the distance between them "
      "({} with a single possible order)",
      report.index_name, text::counted(static_cast<int64_t>(report.inversions_from), "pixel"));
  for (const auto& bin : report.inversions) {
    if (bin.pairs == 0) continue;
    constexpr double kWidth = 56;
    const auto bar = static_cast<size_t>(bin.share() * kWidth + 0.5);
    lines.add("  {:>12}  {:.3f}  {}", fmt::format("{}-{}", bin.nearest, bin.farthest), bin.share(),
              std::string(bar, '#'));
  }
}

// Returns how many pixels with several additions received them in the order of the samples.
int64_t in_order(const OrderReport& report) {
  return std::ranges::count_if(report.targets, [](const TargetOrder& target) {
    const auto& order = target.result.order;
    return target.result.fit == OrderFit::kFound && order.size() > 1 && std::ranges::is_sorted(order);
  });
}

std::string sums_text(const analysis::SumType& sums) {
  const std::string in = msda_dtype_name(sums.sum);
  return sums.sum == sums.stored ? in : fmt::format("{}, rounded to {} at the end", in, msda_dtype_name(sums.stored));
}

void add_arithmetic(const FoundOrders& found, Lines& lines) {
  const OrderReport& report = found.report;
  const auto& arithmetic = report.arithmetic;
  if (found.kernel.empty()) {
    lines.add("  kernel: not named, so it is unknown whether it adds as known kernels do: {}", report.known.text);
  } else {
    lines.add("  kernel: {}", report.known.text);
  }
  if (!report.known.one_at_a_time) {
    lines.add("  Its addends are not added one at a time, so that an order of single addends need not exist.");
  }
  if (!arithmetic.found && arithmetic.tried == 0) {
    lines.add(
        "  arithmetic: unknown. It is read from pixels with at most 15 additions, and none has so few. No order is "
        "sought; msda-replay minimize makes a smaller call of a finding.");
    return;
  }
  if (!arithmetic.found) {
    lines.add(
        "  arithmetic: unknown. The best product explains {} of the {} pixels with the fewest additions: another "
        "operator, other conventions, or a kernel that does not add one addend at a time. No order is sought.",
        arithmetic.fits, arithmetic.tried);
    return;
  }
  const std::string fits =
      arithmetic.tried == 0
          ? "as the kernel's is known to be; no pixel has few enough additions to check it"
          : fmt::format("explains {} of {} pixels with few additions", arithmetic.fits, arithmetic.tried);
  lines.add("  arithmetic: {}, {}, in {}; sums in {}: {}", arithmetic.product.name, arithmetic.factors.name,
            msda_dtype_name(arithmetic.factors.type), sums_text(arithmetic.sums), fits);
}

}  // namespace

bool has_faults(const FoundOrders& found) {
  return std::ranges::any_of(found.report.targets, [&](const TargetOrder& target) { return is_fault(found, target); });
}

Json to_json(const std::string& capture, const std::vector<FoundOrders>& found, const std::vector<NoOrders>& none,
             size_t most) {
  OrderCounts sum;
  for (const FoundOrders& orders : found) add(orders.report.counts, sum);
  Json json = {{"capture", capture}, {"summary", to_json(sum)}, {"invocations", Json::array()}};
  for (const FoundOrders& orders : found) json["invocations"].push_back(to_json(orders, most));
  json["not_read"] = Json::array();
  for (const auto& [id, why] : none) json["not_read"].push_back({{"id", id}, {"why", why}});
  return json;
}

Lines to_text(const FoundOrders& found, size_t most, bool quiet) {
  const OrderCounts& counts = found.report.counts;
  Lines lines;
  lines.add("Invocation {}, {}: {}, {} pixels with additions{}", found.invocation, found.operator_name,
            name_of(found.gradient), counts.elements,
            found.altered.empty() ? "" : " (from data that do not match their digests)");
  if (!quiet) add_arithmetic(found, lines);
  if (!quiet) lines.append(to_text(found.atomics, 2));
  if (!found.report.arithmetic.found) return lines;
  lines.add("  one order gives every recorded bit: {} of {}{}", counts.explained, counts.elements,
            counts.with_1_to_15 == 0 ? ""
                                     : fmt::format("; of those with 1 to 15 additions {} of {}", counts.explained_to_15,
                                                   counts.with_1_to_15));
  if (const int64_t kept = in_order(found.report); kept > 0 && !quiet) {
    lines.add("  it is that of the {} numbers, as one thread adds them: {}", found.report.index_name, kept);
  }
  if (quiet && counts.impossible == 0) return lines;
  lines.add("  it is the only order: {}", counts.unique);
  lines.add(
      "  no single order does, by proof: {}{}", counts.impossible,
      counts.in_parts == 0 ? "" : fmt::format("; an order for each part of their channels does: {}", counts.in_parts));
  if (counts.lost + counts.doubled > 0) {
    lines.add("  as if one addend was lost: {}; as if one was added twice: {}", counts.lost, counts.doubled);
  }
  if (2 * (counts.impossible - counts.in_parts) > counts.elements) {
    lines.add("  That is most of them: the kernel may add sums of several addends, and not one addend at a time.");
  }
  if (counts.not_found > 0) {
    lines.add("  not found: {}, which proves nothing: not all of their orders were tried{}", counts.not_found,
              counts.out_of_time == 0 ? "" : fmt::format("; {} searches ran out of time", counts.out_of_time));
  }
  if (quiet) return lines;
  add_inversions(found.report, lines);
  add_impossible(found, most, lines);
  return lines;
}

Json add_up(const std::vector<Json>& outcomes) {
  analysis::OrderCounts none;
  Json sum = to_json(none), captures = Json::array();
  for (const Json& outcome : outcomes) {
    captures.push_back(outcome);
    if (!outcome.contains("summary")) continue;
    for (auto& [name, count] : sum.items()) count = count.get<int64_t>() + outcome["summary"][name].get<int64_t>();
  }
  return {{"captures", captures}, {"summary", sum}};
}

Lines to_text(const Json& added_up, bool quiet) {
  Lines lines;
  const auto add_summary = [&](const std::string& whose, const Json& counts) {
    const auto count = [&](const char* name) { return counts[name].get<int64_t>(); };
    lines.add(
        "{}: one order gives every recorded bit of {} of {} pixels ({} of {} with 1 to 15 additions); by proof none of "
        "{}",
        whose, count("explained"), count("elements"), count("explained_to_15"), count("with_1_to_15"),
        count("impossible"));
  };
  const Json& captures = added_up["captures"];
  add_summary(fmt::format("{} captures", captures.size()), added_up["summary"]);
  for (const Json& capture : captures) {
    if (!quiet && capture.contains("summary")) add_summary(capture["capture"].get<std::string>(), capture["summary"]);
  }
  return lines;
}

}  // namespace msda::replay
