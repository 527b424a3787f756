#include "replay/calls/settle.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>
#include <vector>

#include "analysis/judge/analyze.h"
#include "analysis/model/dialects.h"
#include "analysis/model/owned_side.h"
#include "analysis/numbers/compare.h"
#include "kernels/names.h"
#include "replay/base/errors.h"
#include "replay/calls/loaded_call.h"

namespace msda::replay {
namespace {

struct Fitting {
  msda_padding padding;
  bool align_corners;
};

// "zeros align_corners, border align_corners"
std::vector<Fitting> named_in(const std::string& text, const std::string& where) {
  std::vector<Fitting> all;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    std::istringstream words(part);
    std::string padding, aligned, more;
    words >> padding >> aligned >> more;
    const auto known = kernels::padding_named(padding);
    if (!known || !(aligned.empty() || aligned == "align_corners") || !more.empty()) {
      throw BadInput(
          fmt::format("{}: {} says \"{}\", not such as \"zeros, border\"", where, capture::kFittingConventions, text));
    }
    all.push_back({*known, !aligned.empty()});
  }
  return all;
}

std::string conventions_in_words(const Fitting& conventions) {
  return fmt::format("{}{}", msda_padding_name(conventions.padding),
                     conventions.align_corners ? " with align_corners" : "");
}

// Returns elements of the reference that its own arithmetic, by these conventions, does not give.
int64_t missed_by(const Fitting& fitting, const LoadedCall& loaded, int threads) {
  const analysis::Side& reference = *loaded.reference();
  auto fitted = reference.version_of(loaded.call()).dialects()->padded(fitting.padding, fitting.align_corners);
  if (fitted == nullptr) fitted = reference.alternative;
  msda_options options{};
  options.mode = MSDA_MODE_DETERMINISTIC;
  options.threads = threads;
  auto computed = analysis::uncomputed_side(loaded.call(), reference.name, options.mode, reference, fitted);
  analysis::compute_on_cpu(loaded.call(), options, computed);
  int64_t missed = 0;
  for (const analysis::Gradient gradient : loaded.call().gradients()) {
    const analysis::Tensor& recorded = reference.of(gradient);
    if (!recorded) continue;
    const analysis::Tolerance tolerance = analysis::customary_tolerance(recorded.dtype);
    const analysis::Tensor& expected = computed.side.of(gradient);
    missed += compare(recorded, expected, tolerance, analysis::NonFinite::kAsTorch, /*most_mismatches=*/0, threads)
                  .mismatched;
  }
  return missed;
}

}  // namespace

Settled settle(const Options& options, const capture::IsolatedReader& reader, const capture::Invocation& invocation) {
  const auto text = invocation.facts.texts.find(capture::kFittingConventions);
  if (text == invocation.facts.texts.end() || invocation.facts.dialect.empty()) return {};
  const auto fitting = named_in(text->second, fmt::format("{}: {}", reader.path(), invocation.path));
  std::vector<std::string> names;
  for (const auto& fit : fitting) names.push_back(conventions_in_words(fit));
  const std::string alike = fmt::format("the recorded outputs fit padding {} equally well", fmt::join(names, " and "));
  const Fitting* best = nullptr;
  int64_t fewest = 0, most = 0;
  if (invocation.reference() != nullptr && why_not_replayed(reader, invocation).empty()) {
    const LoadedCall loaded(options, reader, invocation);
    for (const Fitting& fit : fitting) {
      const int64_t missed = missed_by(fit, loaded, static_cast<int>(options.threads));
      most = std::max(most, missed);
      if (best != nullptr && missed >= fewest) continue;
      best = &fit;
      fewest = missed;
    }
  }
  if (best == nullptr || fewest == most) {
    return {"", false, fmt::format("{}; {} is used", alike, invocation.facts.padding_mode)};
  }
  return {msda_padding_name(best->padding), best->align_corners,
          fmt::format("{}; {} is used, which fits the reference best", alike, conventions_in_words(*best))};
}

void take(const Settled& settled, capture::CallFacts& facts) {
  if (settled.padding_mode.empty()) return;
  facts.padding_mode = settled.padding_mode;
  facts.align_corners = settled.align_corners;
  facts.texts.erase(capture::kFittingConventions);
}

}  // namespace msda::replay
