#include "replay/minimize/state.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <fstream>
#include <span>
#include <sstream>
#include <stdexcept>

#include "recorder/capture/digest.h"
#include "replay/base/errors.h"
#include "replay/base/json.h"
#include "replay/base/output.h"

namespace msda::replay {
namespace {

constexpr int kMostStageBits = 9;

// Empty if it cannot be read.
std::string digest_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  const std::string bytes = text.str();
  return file ? capture::digest(std::as_bytes(std::span(bytes))) : "";
}

std::string digest_of(const Json& json) {
  const std::string text = json.dump();
  return capture::digest(std::as_bytes(std::span(text.data(), text.size())));
}

// A whole number within bounds; others have no meaning here, wherever the file comes from.
int64_t whole_number(const Json& number, int64_t least, int64_t most) {
  if (!number.is_number_integer()) throw std::invalid_argument("no integer");
  const bool huge = number.is_number_unsigned() && number.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
  const auto value = huge ? int64_t{-1} : number.get<int64_t>();
  if (value < least || value > most) throw std::invalid_argument("out of bounds");
  return value;
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

// What stands at the path; nothing if nothing does. A FIFO or a device would hold this up, or have no end.
std::optional<std::string> regular_file(const std::string& path) {
  constexpr off_t kMostBytes = off_t{256} << 20;
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0 && errno == ENOENT) return std::nullopt;
  const int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
  std::string text;
  ssize_t got = -1;
  if (fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size <= kMostBytes) {
    text.resize(static_cast<size_t>(status.st_size));
    got = ::read(fd, text.data(), text.size());
  }
  if (fd >= 0) ::close(fd);
  if (got != static_cast<ssize_t>(text.size())) throw std::invalid_argument("no file");
  return text;
}

// Deeper JSON than a state's is none; writing it again would take a call of a function for each level.
Json parsed(const std::string& text) {
  constexpr int kMostDepth = 16;
  return Json::parse(text, [](int depth, Json::parse_event_t, Json&) {
    if (depth > kMostDepth) throw std::invalid_argument("too deep");
    return true;
  });
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
    const auto text = regular_file(path_);
    if (!text) return std::nullopt;
    json = parsed(*text);
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
  write_file(
      "state file", path_,
      Json{{"subject", subject_}, {"digest", digest_of(json)}, {"reached", json}, {"output", output_digest_}}.dump() +
          "\n");
}

void StateFile::remove() const { ::unlink(path_.c_str()); }

}  // namespace msda::replay
