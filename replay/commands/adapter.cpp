// msda-replay adapter: an adapter file to fill in, from a kernel's signature, or from its compiled code.
#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include "recorder/device/cubin.h"
#include "replay/base/errors.h"
#include "replay/base/output.h"
#include "replay/commands/commands.h"

namespace msda::replay {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFillIn = "...";  // no expression: a file that is not filled in is refused there

struct AdapterOptions {
  std::string signature, cubin, kernel;
};

// What C calls a type: as a parameter, and as an element of a tensor.
struct NamedType {
  const char* name;
  const char* parameter;
  const char* element;
};
constexpr NamedType kTypes[] = {
    {"int", "int32", "int32"},         {"int32_t", "int32", "int32"},
    {"unsigned", "uint32", ""},        {"unsigned int", "uint32", ""},
    {"uint32_t", "uint32", ""},        {"long", "int64", "int64"},
    {"long long", "int64", "int64"},   {"int64_t", "int64", "int64"},
    {"unsigned long", "uint64", ""},   {"unsigned long long", "uint64", ""},
    {"uint64_t", "uint64", ""},        {"size_t", "uint64", ""},
    {"float", "float32", "float32"},   {"double", "float64", "float64"},
    {"bool", "bool", "uint8"},         {"unsigned char", "", "uint8"},
    {"uint8_t", "", "uint8"},          {"half", "", "float16"},
    {"__half", "", "float16"},         {"c10::Half", "", "float16"},
    {"at::Half", "", "float16"},       {"__nv_bfloat16", "", "bfloat16"},
    {"c10::BFloat16", "", "bfloat16"}, {"at::BFloat16", "", "bfloat16"},
};

// A parameter of a signature: "const float* __restrict__ src".
struct Parameter {
  std::string type, name;
  int stars = 0;
  bool is_const = false;
};

std::vector<std::string> words_in(const std::string& text) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : text + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == ':') {
      word += c;
      continue;
    }
    if (!word.empty()) words.push_back(std::exchange(word, ""));
    if (c == '*' || c == '[') words.emplace_back("*");
  }
  return words;
}

Parameter parameter_of(const std::string& text, size_t number) {
  Parameter parameter;
  std::vector<std::string> names;
  for (const std::string& word : words_in(text)) {
    if (word == "*") {
      ++parameter.stars;
    } else if (word == "const") {
      parameter.is_const = true;
    } else if (word != "__restrict__" && word != "__restrict" && word != "restrict" && word != "volatile" &&
               word != "struct") {
      names.push_back(word);
    }
  }
  if (names.empty()) throw BadInput(fmt::format("parameter {} of the signature has no type", number));
  const auto known = [](const std::string& type) {
    return std::ranges::any_of(kTypes, [&](const NamedType& entry) { return type == entry.name; });
  };
  const std::string all = fmt::format("{}", fmt::join(names, " "));
  const bool has_name = names.size() > 1 && !known(all);
  parameter.name = has_name ? names.back() : fmt::format("parameter_{}", number);
  if (has_name) names.pop_back();
  parameter.type = fmt::format("{}", fmt::join(names, " "));
  return parameter;
}

// Splits "a, b<c, d>" at the commas outside of brackets.
std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    depth += (c == '<' || c == '(' || c == '[') - (c == '>' || c == ')' || c == ']');
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  if (parts.size() == 1 && parts[0].find_first_not_of(' ') == std::string::npos) parts.clear();
  return parts;
}

// "at::native::k" becomes "at", "native", "k".
std::vector<std::string> scopes_of(const std::string& name) {
  std::vector<std::string> scopes(1);
  for (const char c : name) {
    if (c != ':') {
      scopes.back() += c;
    } else if (!scopes.back().empty()) {
      scopes.emplace_back();
    }
  }
  return scopes;
}

// Returns a regular expression of the compiled name. In C++ each part has its length before it; a function of extern
// "C" has its name alone.
std::string pattern_of(const std::vector<std::string>& scopes) {
  std::string parts;
  for (const std::string& scope : scopes) parts += fmt::format("{}{}", scope.size(), scope);
  return scopes.size() > 1 ? fmt::format("^_ZN{}[EI]", parts) : fmt::format("^(_Z{}|{}$)", parts, scopes[0]);
}

Json adapter_of(const std::string& signature) {
  const size_t open = signature.find('('), close = signature.rfind(')');
  const std::vector<std::string> before = words_in(signature.substr(0, open));
  if (open == std::string::npos || close == std::string::npos || close < open || before.empty()) {
    throw BadInput(fmt::format(
        "\"{}\" is no signature; give one such as 'void k(int rows, const float* src, float* out)'", signature));
  }
  const std::vector<std::string> scopes = scopes_of(before.back());
  const std::string& kernel = scopes.back();
  Json parameters = Json::array(), tensors = Json::array();
  for (const std::string& text : parts_of(signature.substr(open + 1, close - open - 1))) {
    const Parameter parameter = parameter_of(text, parameters.size());
    const auto type =
        std::ranges::find_if(kTypes, [&](const NamedType& entry) { return parameter.type == entry.name; });
    const bool is_known = type != std::end(kTypes);
    if (parameter.stars > 0) {
      parameters.push_back({{"name", parameter.name}, {"type", "pointer"}});
      if (parameter.stars > 1) continue;
      tensors.push_back({{"name", parameter.name},
                         {"role", parameter.is_const ? "input" : "output"},
                         {"pointer", parameter.name},
                         {"type", is_known && *type->element != '\0' ? type->element : kFillIn},
                         {"shape", {kFillIn}}});
    } else if (is_known && *type->parameter != '\0') {
      parameters.push_back({{"name", parameter.name}, {"type", type->parameter}});
    } else {
      parameters.push_back(
          {{"name", parameter.name}, {"type", "bytes"}, {"size", fmt::format("sizeof({})", parameter.type)}});
    }
  }
  return {{"name", kernel},
          {"kernel", pattern_of(scopes)},
          {"parameters", std::move(parameters)},
          {"tensors", std::move(tensors)}};
}

std::vector<std::byte> contents_of_cubin(const std::string& path) {
  constexpr uintmax_t kLargest = uintmax_t{1} << 30;
  std::error_code error;
  const auto kind = std::filesystem::status(path, error).type();
  if (kind == std::filesystem::file_type::not_found) throw BadInput(fmt::format("{}: cannot read it", path));
  if (kind != std::filesystem::file_type::regular) throw BadInput(fmt::format("{}: is not a file", path));
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (error || size > kLargest) throw BadInput(fmt::format("{}: is larger than a gibibyte, which no cubin is", path));
  std::vector<std::byte> contents(size);
  std::ifstream file(path, std::ios::binary);
  if (!file.read(reinterpret_cast<char*>(contents.data()), static_cast<std::streamsize>(size))) {
    throw BadInput(fmt::format("{}: cannot read it", path));
  }
  return contents;
}

// Compiled code has the sizes of parameters, and nothing says whether eight bytes are a pointer.
Json adapter_of_cubin(const AdapterOptions& options) {
  const std::vector<std::byte> file = contents_of_cubin(options.cubin);
  const auto cubin = record::cubin_at(file.data(), file.size());
  if (cubin.empty()) {
    throw BadInput(
        fmt::format("{}: is no cubin; cuobjdump -xelf all PROGRAM takes them out of a program", options.cubin));
  }
  std::vector<std::string_view> kernels = record::functions_in(cubin);
  std::erase_if(kernels, [&](std::string_view name) {
    return name.find(options.kernel) == name.npos || record::parameter_sizes(cubin, name).empty();
  });
  if (kernels.size() != 1) {
    throw BadInput(fmt::format("{}: {} kernels with parameters have \"{}\" in their names; give --kernel NAME: {}",
                               options.cubin, kernels.size(), options.kernel, fmt::join(kernels, ", ")));
  }
  Json parameters = Json::array();
  for (const unsigned size : record::parameter_sizes(cubin, kernels[0])) {
    const std::string name = fmt::format("parameter_{}", parameters.size());
    if (size == 4 || size == 8) {
      parameters.push_back({{"name", name}, {"type", size == 4 ? "int32" : "pointer"}});
    } else if (size == 1) {
      parameters.push_back({{"name", name}, {"type", "bool"}});
    } else {
      parameters.push_back({{"name", name}, {"type", "bytes"}, {"size", size}});
    }
  }
  const Json tensor = {
      {"name", kFillIn}, {"role", "output"}, {"pointer", kFillIn}, {"type", "float32"}, {"shape", {kFillIn}}};
  return {{"name", std::string(kernels[0].substr(0, 100))},
          {"kernel", fmt::format("^{}$", kernels[0])},
          {"parameters", std::move(parameters)},
          {"tensors", {tensor}}};
}

}  // namespace

void add_adapter_command(CLI::App& app, int& status) {
  auto options = std::make_shared<AdapterOptions>();
  CLI::App* command = app.add_subcommand("adapter", "Print an adapter file to fill in, for a kernel of your own");
  command->add_option("signature", options->signature, "\"void k(int rows, const float* src, float* out)\"");
  auto* cubin = command->add_option("--cubin", options->cubin, "Take the sizes of the parameters from compiled code")
                    ->type_name("FILE");
  command->add_option("--kernel", options->kernel, "The kernel in the cubin whose name has this part")
      ->needs(cubin)
      ->type_name("NAME");
  command->callback([options, &status] {
    if (options->signature.empty() == options->cubin.empty()) {
      throw BadInput("give either a signature or --cubin FILE");
    }
    const Json adapter = options->cubin.empty() ? adapter_of(options->signature) : adapter_of_cubin(*options);
    const Json file = {{"format", "msda-adapter"}, {"version", 1}, {"adapters", {adapter}}};
    print_raw(file.dump(2) + "\n");
    status = kWithinTolerance;
  });
}

}  // namespace msda::replay
