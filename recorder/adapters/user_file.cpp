// Reads adapter files. Any content gives either adapters or one BadAdapterFile.
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <set>
#include <stdexcept>
#include <utility>

#include "recorder/adapters/user.h"
#include "recorder/adapters/user_node.h"
#include "recorder/adapters/user_operator.h"
#include "recorder/adapters/user_spec.h"

namespace msda::adapters {
namespace {

constexpr size_t kLargestFile = 1 << 20;
constexpr int64_t kMostParameters = 256;   // the recorder reads no more
constexpr int64_t kLargestStruct = 32764;  // CUDA's limit for all parameters together
constexpr int64_t kMostDimensions = 16;
constexpr size_t kMostTensors = 64, kMostConditions = 64, kMostAdapters = 256;

struct Scalar {
  const char* name;
  ScalarType type;
  uint64_t size;
};
constexpr Scalar kScalars[] = {
    {"int32", ScalarType::kInt32, 4},   {"int64", ScalarType::kInt64, 8},     {"uint32", ScalarType::kUInt32, 4},
    {"uint64", ScalarType::kUInt64, 8}, {"float32", ScalarType::kFloat32, 4}, {"float64", ScalarType::kFloat64, 8},
    {"bool", ScalarType::kBool, 1},     {"pointer", ScalarType::kPointer, 8},
};

// The operator's tensors, which an adapter with a dialect names.
struct OperatorTensor {
  const char* name;
  size_t rank;
  bool is_input, is_needed, is_integer;
};
constexpr OperatorTensor kOperator[] = {
    {"value", 4, true, true, false},
    {"spatial_shapes", 2, true, true, true},
    {"level_start_index", 1, true, false, true},
    {"sampling_locations", 6, true, true, false},
    {"attention_weights", 5, true, true, false},
    {"grad_output", 4, true, true, false},
    {"grad_value", 4, false, false, false},
    {"grad_sampling_locations", 6, false, true, false},
    {"grad_attention_weights", 5, false, true, false},
};

void add_scalar(UserSpec& spec, const Node& where, ScalarSpec scalar) {
  if (std::ranges::find(spec.scalars, scalar.name, &ScalarSpec::name) != spec.scalars.end()) {
    where.fail("is a name that another parameter has: " + scalar.name);
  }
  spec.scalars.push_back(std::move(scalar));
}

void read_parameter(UserSpec& spec, const Node& node) {
  node.with_keys({"name", "type", "size", "fields"});
  const size_t index = spec.sizes.size();
  const auto name = node.find("name");
  if (name && (name->identifier() == "grid" || name->text() == "block")) {
    name->fail("is the launch's own word; give the parameter another name");
  }
  if (node.at("type").text() != "bytes") {
    for (const char* key : {"size", "fields"}) {
      if (const auto extra = node.find(key)) extra->fail("is for parameters of type bytes");
    }
    std::vector<std::string> known{"bytes"};
    const auto scalar = std::ranges::find_if(kScalars, [&](const Scalar& s) {
      known.emplace_back(s.name);
      return node.at("type").text() == s.name;
    });
    if (scalar == std::end(kScalars)) {
      node.at("type").fail("is \"" + node.at("type").text() + "\"; there are " + listed(known));
    }
    spec.sizes.push_back(scalar->size);
    spec.are_pointers.push_back(scalar->type == ScalarType::kPointer);
    if (name) add_scalar(spec, *name, {name->text(), index, 0, scalar->type, scalar->size});
    return;
  }
  const uint64_t size = node.at("size").integer(1, kLargestStruct);
  spec.sizes.push_back(size);
  spec.are_pointers.push_back(false);
  const auto fields = node.find("fields");
  if (!fields) return;
  if (!name) node.fail("has fields, but no \"name\" to call them by");
  for (const Node& field : fields->list(1, kMostParameters)) {
    field.with_keys({"name", "offset", "type"});
    const Scalar& scalar = field.at("type").one_of(kScalars);
    const uint64_t offset = field.at("offset").integer(0, kLargestStruct);
    if (offset + scalar.size > size)
      field.fail("reaches beyond the " + std::to_string(size) + " bytes of " + name->text());
    add_scalar(spec, field.at("name"),
               {name->text() + "." + field.at("name").identifier(), index, offset, scalar.type, scalar.size});
  }
}

// Returns what names mean in this adapter's expressions.
Expression::Names names_of(const UserSpec& spec) {
  return [&spec](std::string_view name) {
    const auto found = std::ranges::find(spec.scalars, name, &ScalarSpec::name);
    if (found != spec.scalars.end()) {
      const ScalarType type = found->type;
      if (type == ScalarType::kFloat32 || type == ScalarType::kFloat64 || type == ScalarType::kPointer) {
        throw BadExpression(found->name + " is no integer");
      }
      return static_cast<size_t>(found - spec.scalars.begin());
    }
    const auto extent = std::ranges::find(kExtents, name);
    if (extent != std::end(kExtents)) return spec.scalars.size() + static_cast<size_t>(extent - std::begin(kExtents));
    std::vector<std::string_view> known;
    for (const ScalarSpec& scalar : spec.scalars) known.push_back(scalar.name);
    known.insert(known.end(), std::begin(kExtents), std::end(kExtents));
    throw BadExpression("there is no \"" + std::string(name) + "\"; there are " + listed(known));
  };
}

std::vector<Expression> read_expressions(const UserSpec& spec, const std::vector<Node>& nodes) {
  std::vector<Expression> expressions;
  for (const Node& node : nodes) {
    expressions.push_back(node.reading_expression([&] { return Expression(node.expression(), names_of(spec)); }));
  }
  return expressions;
}

// Returns the number of the scalar that points to a tensor.
size_t pointer_named(const UserSpec& spec, const Node& pointer) {
  const auto scalar = std::ranges::find(spec.scalars, pointer.text(), &ScalarSpec::name);
  if (scalar == spec.scalars.end() || scalar->type != ScalarType::kPointer) {
    pointer.fail("is \"" + pointer.text() + "\", which is not the name of a parameter or field of type pointer");
  }
  return static_cast<size_t>(scalar - spec.scalars.begin());
}

void read_tensor(UserSpec& spec, const Node& node) {
  if (spec.has_kernel) {
    node.with_keys({"name", "role", "pointer", "type", "shape", "strides", "if"});
  } else {
    node.with_keys({"name", "role", "type", "rank"});
  }
  const Node name = node.at("name");
  if (std::ranges::find(spec.tensors, name.identifier(), &TensorSpec::name) != spec.tensors.end()) {
    name.fail("is a name that another tensor has: " + name.text());
  }
  constexpr std::array kRoles{"input", "output", "inout"};
  const size_t role = node.at("role").word_of(kRoles);
  TensorSpec tensor{
      name.text(), role != 1, role != 0, 0, static_cast<msda_dtype>(node.at("type").word_of(kernels::kDtypeNames)),
      {},          {},        {}};
  if (const auto present = node.find("if")) {
    tensor.present_if = present->reading_expression([&] { return Condition(present->text(), names_of(spec)); });
  }
  if (spec.has_kernel) {
    tensor.pointer = pointer_named(spec, node.at("pointer"));
    tensor.shape = read_expressions(spec, node.at("shape").list(1, kMostDimensions));
  } else {
    // No launch is decoded by it: only the number of dimensions matters.
    const uint64_t rank = node.at("rank").integer(1, kMostDimensions);
    tensor.shape.assign(rank, Expression("1", names_of(spec)));
  }
  if (const auto strides = node.find("strides")) {
    tensor.strides = read_expressions(spec, strides->list(tensor.shape.size(), tensor.shape.size()));
  }
  spec.tensors.push_back(std::move(tensor));
}

// With a dialect, the call is the operator's own, so it must have the operator's tensors.
void read_conventions(UserSpec& spec, const Node& node, const Node& tensors) {
  const auto dialect = node.find("dialect"), padding = node.find("padding_mode"), align = node.find("align_corners");
  if (!dialect) {
    for (const auto& extra : {padding, align}) {
      if (extra) extra->fail("goes with a \"dialect\", and there is none");
    }
    return;
  }
  spec.dialect = static_cast<msda_dialect>(dialect->word_of(kernels::kDialectNames));
  if (padding) spec.padding = static_cast<msda_padding>(padding->word_of(kernels::kPaddingNames));
  if (align) spec.align_corners = align->boolean();
  for (const TensorSpec& tensor : spec.tensors) {
    const auto known = std::ranges::find_if(kOperator, [&](const auto& entry) { return tensor.name == entry.name; });
    if (known == std::end(kOperator)) tensors.fail("has " + tensor.name + ", which the operator of a dialect has not");
    if (tensor.shape.size() != known->rank) {
      tensors.fail("has " + tensor.name + " of " + std::to_string(tensor.shape.size()) + " dimensions, not " +
                   std::to_string(known->rank));
    }
    if (tensor.is_input != known->is_input || tensor.is_output == known->is_input) {
      tensors.fail("has " + tensor.name + " in another role than " + (known->is_input ? "input" : "output"));
    }
    if (!(known->is_integer ? kernels::is_index(tensor.type) : kernels::is_float(tensor.type))) {
      tensors.fail("has " + tensor.name + " of type " + kernels::name_of(tensor.type) + ", not " +
                   (known->is_integer ? "int32 or int64" : "a floating-point one"));
    }
  }
  // The writer derives the missing conventions from the outputs.
  const bool all_given = spec.padding && spec.align_corners;
  for (const auto& entry : kOperator) {
    if (entry.is_needed && (entry.is_input || !all_given) &&
        std::ranges::find(spec.tensors, entry.name, &TensorSpec::name) == spec.tensors.end()) {
      tensors.fail(std::string("has no ") + entry.name + ", which the operator of a dialect has");
    }
  }
}

bool is_line(const std::string& text) {
  const auto printable = [](char c) { return static_cast<unsigned char>(c) >= ' ' && c != 0x7f; };
  return !text.empty() && text.size() <= 100 && std::ranges::all_of(text, printable);
}

NamePattern read_pattern(const Node& node) {
  const std::string& pattern = node.text();
  if (pattern.empty() || pattern.size() > NamePattern::kLongest) {
    node.fail("is not a regular expression of 1 to " + std::to_string(NamePattern::kLongest) + " characters");
  }
  if (pattern.find('{') != pattern.npos) node.fail("counts with {}, which is not taken: write the repeats out");
  try {
    return NamePattern(pattern);
  } catch (const std::invalid_argument& e) {
    node.fail("is \"" + pattern +
              "\", not a valid regular expression (ECMAScript, without back references): " + e.what());
  }
}

void read_stated_fact(UserSpec& spec, const Node& name, const std::optional<Node>& text,
                      const std::optional<Node>& value) {
  constexpr std::string_view kOfTheRecorder[] = {"adapter", "definition", "operator", "scalars"};
  const std::string fact = name.identifier();
  if (std::ranges::find(kOfTheRecorder, fact) != std::end(kOfTheRecorder)) {
    name.fail("is \"" + fact + "\", which the recorder states; give the fact another name");
  }
  if (text.has_value() == value.has_value()) name.fail("has not one of \"text\" and \"value\" beside it");
  if (text) {
    if (!is_line(text->text())) text->fail("is not a line of 1 to 100 characters");
    spec.texts.emplace_back(fact, text->text());
  } else {
    spec.numbers.emplace_back(
        fact, value->reading_expression([&] { return Expression(value->expression(), names_of(spec)); }));
  }
}

void read_facts(UserSpec& spec, const Node& node) {
  for (const Node& name : node.list(0, kMostParameters)) {
    if (name.json().is_object()) {
      name.with_keys({"name", "text", "value"});
      read_stated_fact(spec, name.at("name"), name.find("text"), name.find("value"));
      continue;
    }
    const auto found = std::ranges::find(spec.scalars, name.text(), &ScalarSpec::name);
    const bool is_number = found != spec.scalars.end() && found->type != ScalarType::kPointer;
    if (!is_number) name.fail("is \"" + name.text() + "\", which is no number among the parameters");
    spec.facts.push_back(static_cast<size_t>(found - spec.scalars.begin()));
  }
}

UserSpec read_spec(const Node& node, bool is_built_in) {
  node.with_keys({"name", "kernel", "types", "parameters", "conditions", "facts", "tensors", "dialect", "padding_mode",
                  "align_corners", "operator"});
  UserSpec spec;
  spec.is_built_in = is_built_in;
  spec.has_kernel = node.find("kernel") || !node.find("operator");
  if (!spec.has_kernel) node.with_keys({"name", "parameters", "tensors", "operator"});
  spec.name = node.at("name").text();
  if (!is_line(spec.name)) node.at("name").fail("is not a line of 1 to 100 characters");
  if (spec.has_kernel) spec.kernel = read_pattern(node.at("kernel"));
  const auto parameters = spec.has_kernel ? node.at("parameters") : node.find("parameters");
  for (const Node& parameter :
       parameters ? parameters->list(spec.has_kernel ? 1 : 0, kMostParameters) : std::vector<Node>{}) {
    read_parameter(spec, parameter);
  }
  if (const auto conditions = node.find("conditions")) {
    for (const Node& condition : conditions->list(0, kMostConditions)) {
      spec.conditions.push_back(
          condition.reading_expression([&] { return Condition(condition.text(), names_of(spec)); }));
    }
  }
  if (const auto facts = node.find("facts")) read_facts(spec, *facts);
  const Node tensors = node.at("tensors");
  for (const Node& tensor : tensors.list(1, kMostTensors)) read_tensor(spec, tensor);
  if (std::ranges::none_of(spec.tensors, &TensorSpec::is_output)) {
    tensors.fail("has no tensor of role output or inout: nothing of this kernel could differ");
  }
  read_conventions(spec, node, tensors);
  const auto op = spec.has_kernel ? node.find("operator") : node.at("operator");
  if (op) {
    if (spec.dialect) op->fail("is there beside a \"dialect\"; a kernel has one operator");
    spec.op = read_operator(spec, *op);
  }
  return spec;
}

std::string contents_of(const std::string& path) {
  const auto fail = [&](const std::string& why) { throw BadAdapterFile(path + ": " + why); };
  // Opened without blocking, and pipes are refused: this runs inside the recorded program.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) fail(std::string("cannot open the adapter file: ") + std::strerror(errno));
  std::string text;
  struct stat status {};
  const bool is_file = fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  ssize_t got = 0;
  try {
    text.resize(kLargestFile + 1);
    size_t size = 0;
    while (is_file && size < text.size() && (got = read(file, text.data() + size, text.size() - size)) > 0) {
      size += static_cast<size_t>(got);
    }
    text.resize(size);
  } catch (...) {
    close(file);
    throw;
  }
  close(file);
  if (!is_file) fail("is not a file; give a file of adapters in JSON");
  if (got < 0) fail("cannot read the adapter file");
  if (text.size() > kLargestFile) fail("is larger than a megabyte, which no adapter file is");
  return text;
}

// Returns the adapter once for each combination of its "types": with the text that stands for a type in the kernel's
// name in place of "(NAME)", and with the type itself in place of NAME.
std::vector<Json> with_types(const Node& node) {
  std::vector<Json> all{node.json()};
  const auto types = node.find("types");
  if (!types) return all;
  node.at("kernel").text();
  node.at("parameters").list(1, kMostParameters);
  node.at("tensors").list(1, kMostTensors);
  for (const auto& [name, by_text] : types->members()) {
    const std::string place = "(" + name + ")";
    std::vector<Json> more;
    for (const Json& before : all) {
      for (const auto& [text, type] : by_text.members()) {
        Json& typed = more.emplace_back(before);
        auto& kernel = typed.at("kernel").get_ref<std::string&>();
        const size_t at = kernel.find(place);
        if (at == kernel.npos) types->fail("has \"" + name + "\", and the kernel's pattern has no " + place);
        kernel.replace(at, place.size(), text);
        for (const char* list : {"parameters", "tensors"}) {
          for (Json& entry : typed.at(list)) {
            if (entry.is_object() && entry.value("type", Json()) == name) entry["type"] = type.text();
          }
        }
      }
    }
    if (more.size() > kMostAdapters) types->fail("has more than " + std::to_string(kMostAdapters) + " combinations");
    all = std::move(more);
  }
  return all;
}

// Returns the adapter with the members that it lacks and that the one before it has which its "like" names.
Json with_members_of_another(const Node& adapter, const Json& before) {
  const auto like = adapter.find("like");
  if (!like) return adapter.json();
  const auto named = std::ranges::find_if(
      before, [&](const Json& json) { return json.is_object() && json.value("name", Json()) == like->text(); });
  if (named == before.end()) like->fail("is \"" + like->text() + "\", and no adapter before it has that name");
  Json whole = *named;
  whole.update(adapter.json());
  whole.erase("like");
  return whole;
}

std::string alone(const Node& adapter) {
  return Json{{"format", "msda-adapter"}, {"version", 1}, {"adapters", Json::array({adapter.json()})}}.dump();
}

enum class Source { kUser, kBuiltIn, kBuiltInForLaunches };

std::vector<UserSpec> parse_specs(const std::string& path, const std::string& text, Source source) {
  Json json;
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  std::string twice;
  const auto watch = [&](int, Json::parse_event_t event, const Json& parsed) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second) {
      twice = parsed.get<std::string>();
    }
    return true;
  };
  try {
    json = Json::parse(text, watch);
  } catch (const Json::exception& e) {
    const std::string what = e.what();
    throw BadAdapterFile(path +
                         ": is not JSON: " + what.substr(what.find("] ") == what.npos ? 0 : what.find("] ") + 2));
  }
  const Node file(path, json, "");
  if (!twice.empty()) file.fail("has an object with two values for \"" + twice + "\"");
  file.with_keys({"format", "version", "adapters"});
  if (file.at("format").text() != "msda-adapter") file.at("format").fail("is not \"msda-adapter\"");
  if (file.at("version").integer(0, 1 << 30) != 1)
    file.at("version").fail("is not 1, the version that this program reads");
  std::vector<UserSpec> specs;
  Json all = Json::array();
  for (const Node& own : file.at("adapters").list(1, kMostAdapters)) {
    all.push_back(with_members_of_another(own, all));
    Json read = all.back();
    if (source == Source::kBuiltInForLaunches) read.erase("operator");
    const Node adapter(path, read, own.pointer());
    bool is_another_type = false;
    for (const Json& typed : with_types(adapter)) {
      UserSpec& spec = specs.emplace_back(read_spec(Node(path, typed, adapter.pointer()), source != Source::kUser));
      if (source == Source::kBuiltInForLaunches && all.back().contains("operator")) {
        spec.op.emplace().name = all.back().at("operator").at("name");
      }
      if (source == Source::kBuiltIn && !is_another_type) spec.text = alone(adapter);
      spec.is_another_type = std::exchange(is_another_type, true);
    }
  }
  return specs;
}

}  // namespace

std::vector<UserSpec> parse_user_specs(const std::string& path, const std::string& text) {
  return parse_specs(path, text, Source::kUser);
}

std::vector<UserSpec> built_in_specs(std::string_view definition, bool with_operators) {
  return parse_specs("built in", std::string(definition),
                     with_operators ? Source::kBuiltIn : Source::kBuiltInForLaunches);
}

std::vector<UserSpec> read_user_specs(const std::string& path) { return parse_user_specs(path, contents_of(path)); }

std::vector<std::unique_ptr<const Adapter>> parse_user_adapters(const std::string& path, const std::string& text) {
  std::vector<std::unique_ptr<const Adapter>> adapters;
  for (UserSpec& spec : parse_user_specs(path, text)) {
    if (!spec.has_kernel) {
      throw BadAdapterFile(path + ": adapter " + spec.name + " has no \"kernel\", without which nothing is recorded");
    }
    adapters.push_back(user_adapter(std::move(spec)));
  }
  return adapters;
}

std::vector<std::unique_ptr<const Adapter>> read_user_adapters(const std::string& path) {
  return parse_user_adapters(path, contents_of(path));
}

}  // namespace msda::adapters
