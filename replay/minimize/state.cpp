#include "replay/minimize/state.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "recorder/capture/digest.h"
#include "replay/base/errors.h"
#include "replay/base/json.h"
#include "replay/base/output.h"

namespace msda::replay {
namespace {

std::string digest_of(const Json& json) {
  const std::string text = json.dump();
  return capture::digest(std::as_bytes(std::span(text.data(), text.size())));
}

std::string hexadecimal(const std::vector<std::byte>& bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::byte byte : bytes) {
    text += kDigits[std::to_integer<unsigned>(byte) / 16];
    text += kDigits[std::to_integer<unsigned>(byte) % 16];
  }
  return text;
}

std::vector<std::byte> from_hexadecimal(const std::string& text) {
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    throw std::invalid_argument("no hexadecimal digit");
  };
  if (text.size() % 2 != 0) throw std::invalid_argument("half a byte");
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < text.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(16 * digit(text[i]) + digit(text[i + 1])));
  }
  return bytes;
}

Json reached_json(const analysis::Reached& reached) {
  const auto& [kept, inputs, moved, replayed] = reached.recipe;
  Json json = {{"trials", reached.trials},
               {"seconds", reached.seconds},
               {"kept", kept},
               {"moved", moved},
               {"replayed",
                {{"recorded_stages", replayed.recorded_stages},
                 {"reference_stages", replayed.reference_stages},
                 {"mode", static_cast<int>(replayed.mode)},
                 {"seed", replayed.seed},
                 {"adds_before", replayed.adds_before}}}};
  if (!inputs) return json;
  json["inputs"] = Json::array();
  for (const auto& tensor : *inputs) {
    json["inputs"].push_back({{"name", tensor.name},
                              {"dtype", static_cast<int>(tensor.dtype)},
                              {"shape", tensor.shape},
                              {"bytes", hexadecimal(tensor.bytes)}});
  }
  return json;
}

analysis::Reached reached_of(const Json& json) {
  analysis::Reached reached;
  auto& recipe = reached.recipe;
  reached.trials = json.at("trials");
  reached.seconds = json.at("seconds");
  recipe.kept = json.at("kept").get<analysis::Kept>();
  recipe.moved = json.at("moved");
  recipe.replayed.recorded_stages = json.at("replayed").at("recorded_stages");
  recipe.replayed.reference_stages = json.at("replayed").at("reference_stages");
  recipe.replayed.mode = static_cast<msda_mode>(json.at("replayed").at("mode").get<int>());
  recipe.replayed.seed = json.at("replayed").at("seed");
  recipe.replayed.adds_before = json.at("replayed").at("adds_before");
  if (!json.contains("inputs")) return reached;
  recipe.inputs.emplace();
  for (const Json& one : json.at("inputs")) {
    analysis::OwnedTensor tensor;
    tensor.name = one.at("name");
    tensor.dtype = static_cast<msda_dtype>(one.at("dtype").get<int>());
    tensor.shape = one.at("shape").get<analysis::Index>();
    tensor.bytes = from_hexadecimal(one.at("bytes"));
    recipe.inputs->push_back(std::move(tensor));
  }
  return reached;
}

}  // namespace

StateFile::StateFile(const std::string& output, Json subject)
    : path_(output + ".state"), subject_(std::move(subject)) {}

std::optional<analysis::Reached> StateFile::read(const analysis::Call& whole) const {
  std::ifstream file(path_);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  const auto refuse = [&](const std::string& why) {
    return BadInput(fmt::format("{}: {}; remove it, or give --from-scratch", path_, why));
  };
  try {
    const Json json = json_of(text.str());
    if (digest_of(json.at("reached")) != json.at("digest").get<std::string>()) throw refuse("it is damaged");
    if (json.at("subject") != subject_) throw refuse("it belongs to another capture, finding, or set of flags");
    analysis::Reached reached = reached_of(json.at("reached"));
    if (reached.recipe.kept.size() != whole.cuts().size()) throw refuse("it is damaged");
    return reached;
  } catch (const nlohmann::json::exception&) {
    throw refuse("it is no state of minimize");
  } catch (const std::invalid_argument&) {
    throw refuse("it is damaged");
  }
}

void StateFile::write(const analysis::Reached& reached) const {
  const Json json = reached_json(reached);
  write_file("state file", path_,
             Json{{"subject", subject_}, {"digest", digest_of(json)}, {"reached", json}}.dump() + "\n");
}

void StateFile::remove() const { ::unlink(path_.c_str()); }

}  // namespace msda::replay
