#include "replay/minimize/state.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <span>
#include <sstream>
#include <stdexcept>

#include "recorder/capture/digest.h"
#include "replay/base/errors.h"
#include "replay/base/output.h"
#include "replay/base/state_file.h"

namespace msda::replay {
namespace {

constexpr int kMostStageBits = 9;

// Returns an empty text if the file cannot be read.
std::string digest_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  const std::string bytes = text.str();
  return file ? capture::digest(std::as_bytes(std::span(bytes))) : "";
}

// Ascending places, as they choose elements of tensors.
analysis::Kept kept_of(const Json& json, const std::vector<analysis::Cut>& cuts) {
  if (!json.is_array() || json.size() != cuts.size()) throw std::invalid_argument("another call");
  analysis::Kept kept;
  for (const auto& cut : cuts) {
    auto& places = kept.emplace_back();
    for (const Json& place : json.at(kept.size() - 1)) {
      places.push_back(whole_number(place, places.empty() ? 0 : places.back() + 1, cut.size - 1));
    }
    if (places.empty() && cut.size > 0) throw std::invalid_argument("nothing is kept");
  }
  return kept;
}

Json reached_json(const analysis::Reached& reached) {
  const analysis::Replayed& replayed = reached.recipe.replayed;
  return {{"trials", reached.trials},
          {"seconds", reached.seconds},
          {"kept", reached.recipe.kept},
          {"replayed",
           {{"recorded_stages", replayed.recorded_stages},
            {"reference_stages", replayed.reference_stages},
            {"mode", static_cast<int>(replayed.mode)},
            {"seed", replayed.seed},
            {"adds_before", replayed.adds_before}}}};
}

analysis::Reached reached_of(const Json& json, const analysis::Call& whole) {
  analysis::Reached reached;
  auto& [kept, inputs, moved, replayed] = reached.recipe;
  reached.trials = whole_number(json.at("trials"), 0, INT64_MAX / 2);
  reached.seconds = json.at("seconds").get<double>();
  if (!(reached.seconds >= 0)) throw std::invalid_argument("no time");
  kept = kept_of(json.at("kept"), whole.cuts());
  const Json& by = json.at("replayed");
  constexpr int64_t kMostStages = (int64_t{1} << kMostStageBits) - 1;
  replayed.recorded_stages =
      static_cast<decltype(replayed.recorded_stages)>(whole_number(by.at("recorded_stages"), 0, kMostStages));
  replayed.reference_stages =
      static_cast<decltype(replayed.reference_stages)>(whole_number(by.at("reference_stages"), 0, kMostStages));
  replayed.mode = static_cast<msda_mode>(whole_number(by.at("mode"), 0, MSDA_MODE_MIXED));
  replayed.seed = by.at("seed").is_number_unsigned() ? by.at("seed").get<uint64_t>() : 0;
  replayed.adds_before = by.at("adds_before").get<bool>();
  return reached;
}

bool is_state(const Json& json) {
  return json.is_object() && json.contains("subject") && json.contains("digest") && json.contains("reached");
}

}  // namespace

StateFile::StateFile(const std::string& output, Json subject)
    : path_(output + ".state"), subject_(std::move(subject)) {}

std::optional<analysis::Reached> StateFile::read(const analysis::Call& whole, bool from_scratch) {
  const auto refuse = [&](const std::string& why) { return BadInput(fmt::format("{}: {}", path_, why)); };
  Json json;
  try {
    auto found = read_state(path_);
    if (!found) return std::nullopt;
    json = *std::move(found);
    if (!is_state(json)) throw std::invalid_argument("no state");
  } catch (const std::exception&) {
    throw refuse("it is no state of minimize, and kept; remove it, or give another name to -o");
  }
  const char* const remedy = "; remove it, or give --from-scratch";
  try {
    if (from_scratch) return std::nullopt;
    if (digest_of(json.at("reached")) != json.at("digest").get<std::string>()) {
      throw refuse(fmt::format("it is damaged{}", remedy));
    }
    if (json.at("subject") != subject_) {
      throw refuse(fmt::format("it belongs to another capture, finding, or set of flags{}", remedy));
    }
    auto reached = reached_of(json.at("reached"), whole);
    output_digest_ = json.value("output", "");
    return reached;
  } catch (const nlohmann::json::exception&) {
    throw refuse(fmt::format("it is damaged{}", remedy));
  } catch (const std::invalid_argument&) {
    throw refuse(fmt::format("it is damaged{}", remedy));
  }
}

bool StateFile::left(const std::string& output) const {
  return !output_digest_.empty() && digest_of_file(output) == output_digest_;
}

void StateFile::note_output(const std::string& output) { output_digest_ = digest_of_file(output); }

void StateFile::write(const analysis::Reached& reached) const {
  const Json json = reached_json(reached);
  const Json state = {
      {"subject", subject_}, {"digest", digest_of(json)}, {"reached", json}, {"output", output_digest_}};
  OutputFile{"state file", path_}.write(state.dump() + "\n");
}

void StateFile::remove() const { ::unlink(path_.c_str()); }

}  // namespace msda::replay
