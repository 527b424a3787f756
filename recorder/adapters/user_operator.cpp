#include "recorder/adapters/user_operator.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "kernels/operator_rows.h"
#include "recorder/adapters/user_node.h"
#include "recorder/adapters/user_spec.h"

namespace msda::adapters {
namespace {

constexpr size_t kMostAddends = 16, kMostWhere = 16, kMostWeights = 8, kLongestPath = 4096;

bool is_real(ScalarType type) { return type == ScalarType::kFloat32 || type == ScalarType::kFloat64; }

// The text of a sum, cut where + and - stand between its terms, and these where * and / stand between factors.
struct SplitFactor {
  bool divides;
  std::string_view text;
};
struct SplitTerm {
  bool negative = false;
  std::vector<SplitFactor> factors;
};

std::vector<SplitTerm> split(std::string_view text) {
  std::vector<SplitTerm> terms(1);
  size_t from = 0;
  int depth = 0;
  bool divides = false, after_operand = false;
  const auto end_factor = [&](size_t at) { terms.back().factors.push_back({divides, text.substr(from, at - from)}); };
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == ' ') continue;
    depth += (c == '(' || c == '[') - (c == ')' || c == ']');
    // After an e that ends digits, a sign is part of a number: 1e-3.
    const bool exponent = at > 1 && (text[at - 1] == 'e' || text[at - 1] == 'E') &&
                          std::string_view("0123456789.").find(text[at - 2]) != std::string_view::npos &&
                          text.substr(from, at - from).find_first_not_of(" 0123456789.eE") == std::string_view::npos;
    if (depth == 0 && after_operand && (c == '*' || c == '/')) {
      end_factor(at);
      divides = c == '/';
      from = at + 1;
      after_operand = false;
    } else if (depth == 0 && (c == '+' || c == '-') && after_operand && !exponent) {
      end_factor(at);
      terms.push_back({c == '-', {}});
      divides = false;
      from = at + 1;
      after_operand = false;
    } else if (depth == 0 && c == '-' && !after_operand && terms.back().factors.empty() &&
               text.substr(from, at - from).find_first_not_of(' ') == std::string_view::npos) {
      terms.back().negative = !terms.back().negative;
      from = at + 1;
    } else {
      after_operand = true;
    }
  }
  end_factor(text.size());
  return terms;
}

class OperatorReader {
 public:
  OperatorReader(const UserSpec& spec, const Node& node) : spec_(spec), node_(node), names_(spec) {}

  OperatorSpec read() {
    const auto library = node_.find("library");
    if (library) {
      node_.with_keys({"name", "library"});
    } else {
      node_.with_keys({"name", "arithmetic", "sizes", "stages", "outputs", "loss", "library"});
    }
    const Node name = node_.at("name");
    result_.name = name.identifier();
    if (!spec_.is_built_in &&
        std::ranges::find(kernels::kOperatorNames, result_.name) != std::end(kernels::kOperatorNames)) {
      name.fail("is \"" + result_.name + "\", which is built in; give the operator another name");
    }
    if (library) {
      result_.library = library->text();
      const auto is_printable = [](char c) { return static_cast<unsigned char>(c) >= ' ' && c != 0x7f; };
      if (result_.library.empty() || result_.library.size() > kLongestPath ||
          !std::ranges::all_of(result_.library, is_printable)) {
        library->fail("is no path of 1 to 4096 printable characters");
      }
      return std::move(result_);
    }
    constexpr std::array kArithmetics{"float32", "tensors"};
    if (const auto arithmetic = node_.find("arithmetic"))
      result_.rounds_to_tensors = arithmetic->word_of(kArithmetics) == 1;
    const auto outputs = node_.at("outputs").list(1, kMostOperatorOutputs);
    const auto stages = node_.find("stages");
    const auto all_stages = stages ? stages->list(0, kMostOperatorStages) : std::vector<Node>{};
    // Their names first: expressions may refer to any.
    for (const Node& stage : all_stages) {
      read_indices(stage.with_keys({"name", "index", "over", "where", "value"}));
    }
    for (const Node& output : outputs) {
      read_indices(output.with_keys(
          {"tensor", "index", "over", "where", "channels", "coordinates", "start", "addends", "loss"}));
    }
    const auto loss = node_.find("loss");
    if (loss) read_indices(loss->with_keys({"over", "where", "addends"}));
    if (result_.indices.empty()) node_.fail("has no index");
    if (const auto sizes = node_.find("sizes")) read_sizes(*sizes);
    for (const Node& stage : all_stages) read_stage(stage);
    for (const Node& output : outputs) read_output(output);
    if (loss) read_loss(*loss);
    return std::move(result_);
  }

 private:
  size_t index_named(const Node& node) {
    const std::string name = node.identifier();
    const auto found = std::ranges::find(result_.indices, name, &IndexSpec::name);
    if (found != result_.indices.end()) return static_cast<size_t>(found - result_.indices.begin());
    const bool taken = std::ranges::find(spec_.scalars, name, &ScalarSpec::name) != spec_.scalars.end() ||
                       std::ranges::find(spec_.tensors, name, &TensorSpec::name) != spec_.tensors.end() ||
                       name == "grid" || name == "block" || name == "location" || name == "size";
    if (taken) node.fail("is \"" + name + "\", which has another meaning; give the index another name");
    if (result_.indices.size() == kMostIndices) {
      node.fail("is one index too many; there may be " + std::to_string(kMostIndices));
    }
    result_.indices.push_back({name, std::nullopt});
    return result_.indices.size() - 1;
  }

  void read_indices(const Node& output) {
    for (const char* key : {"index", "over"}) {
      const auto list = output.find(key);
      if (!list && key == std::string_view("index") && output.find("tensor")) output.fail("has no \"index\"");
      if (!list) continue;
      for (const Node& name : list->list(0, kMostIndices)) index_named(name);
    }
  }

  void read_sizes(const Node& sizes) {
    std::vector<std::string_view> known;
    for (const IndexSpec& index : result_.indices) known.push_back(index.name);
    sizes.with_keys(known);
    for (IndexSpec& index : result_.indices) {
      const auto size = sizes.find(index.name.c_str());
      if (!size) continue;
      index.size =
          size->reading_expression([&] { return Expression(size->expression(), names_of({}, false, Which::kLaunch)); });
    }
  }

  std::vector<size_t> read_list(const Node& output, const char* key) {
    std::vector<size_t> list;
    const auto node = output.find(key);
    if (!node) return list;
    for (const Node& name : node->list(0, kMostIndices)) {
      const size_t index = index_named(name);
      if (std::ranges::find(list, index) != list.end()) name.fail("is \"" + name.text() + "\", which is there twice");
      list.push_back(index);
    }
    return list;
  }

  void read_output(const Node& node) {
    OutputSpec output;
    const Node tensor = node.at("tensor");
    const auto found = std::ranges::find(spec_.tensors, tensor.text(), &TensorSpec::name);
    if (found == spec_.tensors.end() || !found->is_output || !kernels::is_float(found->type)) {
      tensor.fail("is \"" + tensor.text() +
                  "\", which is no tensor of role output or inout and of floating-point type");
    }
    output.tensor = static_cast<size_t>(found - spec_.tensors.begin());
    if (std::ranges::find(result_.outputs, output.tensor, &OutputSpec::tensor) != result_.outputs.end()) {
      tensor.fail("is \"" + tensor.text() + "\", which another output is");
    }
    output.index = read_list(node, "index");
    if (output.index.size() != found->shape.size()) {
      node.at("index").fail("has " + std::to_string(output.index.size()) + " names, and " + found->name + " has " +
                            std::to_string(found->shape.size()) + " dimensions");
    }
    read_over(output, node);
    output.channels = read_list(node, "channels");
    for (const size_t index : output.channels) {
      if (std::ranges::find(output.index, index) == output.index.end()) {
        node.at("channels").fail("has " + result_.indices[index].name + ", which is no index of the output");
      }
    }
    if (const auto coordinates = node.find("coordinates")) {
      for (const Node& coordinate : coordinates->list(1, kMostCoordinates)) read_coordinate(output, coordinate);
    }
    read_where(output, node);
    if (const auto start = node.find("start")) output.start = read_sum(output, *start, Which::kElement);
    output.addends = read_sum(output, node.at("addends"), Which::kPoint);
    if (const auto loss = node.find("loss")) {
      output.has_linear_loss = loss->text() == "linear";
      const std::string input = found->name.starts_with("grad_") ? found->name.substr(5) : "";
      if (!output.has_linear_loss &&
          std::ranges::find(spec_.tensors, input, &TensorSpec::name) == spec_.tensors.end()) {
        loss->fail("is there, and the output " + found->name + " is not named grad_ and then as a tensor");
      }
      if (!output.has_linear_loss) output.loss = read_sum(output, *loss, Which::kPoint);
    }
    result_.outputs.push_back(std::move(output));
  }

  void read_over(SumSpec& sum, const Node& node) {
    sum.over = read_list(node, "over");
    for (const size_t index : sum.over) {
      if (std::ranges::find(sum.index, index) != sum.index.end()) {
        node.at("over").fail("has " + result_.indices[index].name + ", which is an index of the tensor");
      }
    }
  }

  void read_where(OutputSpec& output, const Node& node) {
    const auto where = node.find("where");
    if (!where) return;
    for (const Node& condition : where->list(0, kMostWhere)) {
      output.where.push_back(condition.reading_expression([&] { return read_condition(output, condition.text()); }));
      for (const Expression* side : {&output.where.back().condition.left(), &output.where.back().condition.right()}) {
        check_inner(condition, *side, true);
      }
      check_channels(output, condition, output.where.back().condition);
    }
  }

  // A comparison is one of reals if anything in it is none of integers.
  WhereSpec read_condition(const OutputSpec& output, const std::string& text) {
    std::optional<Condition> real;
    try {
      real.emplace(text, names_of(output, true, Which::kPoint), tensors(true), Expression::Numbers::kReals);
    } catch (const BadExpression&) {
      // What is wrong is wrong among integers, too, or is right there.
    }
    if (real && (is_real(real->left()) || is_real(real->right()))) return {*std::move(real), true};
    return {Condition(text, names_of(output, false, Which::kPoint), tensors(false)), false};
  }

  bool is_real(const Expression& expression) const {
    const auto is_real_name = [this](size_t name) { return is_real_number(name); };
    const auto is_float = [this](const Expression::Reference& reference) { return is_floating(reference.tensor); };
    return expression.has_decimals_or_functions() || std::ranges::any_of(expression.loose_names(), is_real_name) ||
           std::ranges::any_of(expression.references(), is_float);
  }

  void read_stage(const Node& node) {
    OutputSpec sum;
    const Node name = node.at("name"), value = node.at("value");
    const auto taken = [&](const auto& list, auto member) {
      return std::ranges::find(list, name.text(), member) != std::ranges::end(list);
    };
    if (name.identifier() == "grid" || name.text() == "block" || taken(spec_.scalars, &ScalarSpec::name) ||
        taken(spec_.tensors, &TensorSpec::name) || taken(result_.stages, &StageSpec::name)) {
      name.fail("is \"" + name.text() + "\", which has another meaning; give the stage another name");
    }
    sum.index = read_list(node, "index");
    read_over(sum, node);
    read_where(sum, node);
    Expression expression = value.reading_expression([&] {
      return Expression(value.text(), names_of(sum, true, Which::kPoint), tensors(true), Expression::Numbers::kReals);
    });
    check_inner(value, expression, true);
    result_.stages.push_back({std::move(sum), name.text(), std::move(expression)});
  }

  // Outputs are its derivatives by the inputs of their names, less "grad_": each is a factor of products, once in each.
  void read_loss(const Node& node) {
    OutputSpec loss;
    read_over(loss, node);
    read_where(loss, node);
    loss.addends = read_sum(loss, node.at("addends"), Which::kPoint);
    for (const OutputSpec& output : result_.outputs) {
      const std::string& name = spec_.tensors[output.tensor].name;
      const auto input =
          std::ranges::find(spec_.tensors, name.starts_with("grad_") ? name.substr(5) : "", &TensorSpec::name);
      if (input == spec_.tensors.end() || !input->is_input || input->shape.size() != output.index.size()) {
        node.fail("is there, and the output " + name + " is not named grad_ and then as an input of its dimensions");
      }
      const auto number = static_cast<size_t>(input - spec_.tensors.begin());
      for (const AddendSpec& addend : loss.addends) {
        const auto is_it = [&](const Expression& factor) { return factor.references().back().tensor == number; };
        const auto reads_it = [&](const WeightSpec& weight) { return has_tensor(weight.factor, number); };
        if (std::ranges::count_if(addend.inputs, is_it) > 1 || std::ranges::any_of(addend.weights, reads_it)) {
          node.fail("is not linear in " + input->name + ": differences give no derivative of it");
        }
      }
      const auto compares_it = [&](const WhereSpec& where) {
        return has_tensor(where.condition.left(), number) || has_tensor(where.condition.right(), number);
      };
      if (std::ranges::any_of(loss.where, compares_it)) {
        node.fail("has a condition on " + input->name + ": differences give no derivative of it");
      }
    }
    result_.loss = std::move(loss);
  }

  // Returns whether an expression reads the tensor, itself or through stages.
  bool has_tensor(const Expression& expression, size_t tensor) const {
    return std::ranges::any_of(expression.references(), [&](const Expression::Reference& reference) {
      if (reference.tensor == tensor) return true;
      return reference.tensor >= spec_.tensors.size() &&
             stage_has_tensor(result_.stages[reference.tensor - spec_.tensors.size()], tensor);
    });
  }
  bool stage_has_tensor(const StageSpec& stage, size_t tensor) const {
    return has_tensor(*stage.value, tensor) || std::ranges::any_of(stage.where, [&](const WhereSpec& where) {
             return has_tensor(where.condition.left(), tensor) || has_tensor(where.condition.right(), tensor);
           });
  }

  void read_coordinate(OutputSpec& output, const Node& node) {
    node.with_keys({"name", "location", "size", "value"});
    const Node name = node.at("name");
    const auto same = [&](const CoordinateSpec& coordinate) { return coordinate.name == name.text(); };
    if (name.identifier() == "grid" || name.text() == "block" || std::ranges::any_of(output.coordinates, same)) {
      name.fail("is \"" + name.text() + "\", which has another meaning; give the coordinate another name");
    }
    const Node location = node.at("location"), size = node.at("size"), value = node.at("value");
    // No coordinate may depend on another one.
    OutputSpec plain;
    plain.index = output.index;
    Expression of_location = location.reading_expression(
        [&] { return Expression(location.text(), names_of(plain, false, Which::kElement), tensors(true)); });
    check_inner(location, of_location, true);
    if (!is_input(of_location)) {
      location.fail("is \"" + location.text() + "\", which is no element of a floating-point tensor");
    }
    Expression of_size = size.reading_expression(
        [&] { return Expression(size.expression(), names_of(plain, false, Which::kElement), tensors(false)); });
    Expression of_value = value.reading_expression([&] {
      return Expression(value.text(), names_of(plain, true, Which::kCoordinate), {}, Expression::Numbers::kReals);
    });
    output.coordinates.push_back({name.text(), std::move(of_location), std::move(of_size), std::move(of_value)});
  }

  std::vector<AddendSpec> read_sum(const OutputSpec& output, const Node& node, auto which) {
    std::vector<AddendSpec> addends;
    const std::string& text = node.text();
    if (text.size() > 1000) node.fail("has more than 1000 characters");
    for (const SplitTerm& term : split(text)) {
      AddendSpec addend{term.negative, {}, {}};
      for (const SplitFactor& factor : term.factors) read_factor(output, node, which, factor, addend);
      addends.push_back(std::move(addend));
    }
    if (addends.size() > kMostAddends) node.fail("has more than " + std::to_string(kMostAddends) + " addends");
    return addends;
  }

  void read_factor(const OutputSpec& output, const Node& node, auto which, const SplitFactor& factor,
                   AddendSpec& addend) {
    Expression expression = node.reading_expression([&] {
      return Expression(factor.text, names_of(output, true, which), tensors(true), Expression::Numbers::kReals);
    });
    const bool multiplies = is_input(expression) && !factor.divides, has_reals = any_floating(expression);
    check_inner(node, expression, true);
    if (multiplies && addend.inputs.size() == kMostInputFactors) {
      node.fail("has an addend of more than " + std::to_string(kMostInputFactors) + " elements");
    }
    if (!multiplies && addend.weights.size() == kMostWeights) {
      node.fail("has an addend of more than " + std::to_string(kMostWeights) + " weights");
    }
    if (multiplies) {
      addend.inputs.push_back(std::move(expression));
    } else {
      addend.weights.push_back({factor.divides, std::move(expression), has_reals});
    }
  }

  bool is_floating(size_t tensor) const {
    return tensor >= spec_.tensors.size() || kernels::is_float(spec_.tensors[tensor].type);
  }
  // Returns whether an expression is one element of a floating-point tensor of the adapter.
  bool is_input(const Expression& expression) const {
    return expression.is_element() && expression.references().back().tensor < spec_.tensors.size() &&
           is_floating(expression.references().back().tensor);
  }
  bool any_floating(const Expression& expression) const {
    return std::ranges::any_of(expression.references(), [this](const auto& at) { return is_floating(at.tensor); });
  }

  // Elements along the channels have the same addends: what holds for one of them holds for all.
  void check_channels(const OutputSpec& output, const Node& node, const Condition& condition) const {
    for (const Expression* side : {&condition.left(), &condition.right()}) {
      std::vector<size_t> used = side->loose_names();
      for (const auto& reference : side->references()) {
        for (const auto& plain : reference.plain) used.push_back(plain.value_or(SIZE_MAX));
      }
      for (const size_t channel : output.channels) {
        if (std::ranges::find(used, names_.index(channel)) == used.end()) continue;
        node.fail("has " + result_.indices[channel].name +
                  ", which is a channel: the addends of all channels are the same; leave it out of \"channels\"");
      }
    }
  }

  // Indices are integers.
  void check_inner(const Node& node, const Expression& expression, bool may_have_reals) const {
    for (const size_t name : expression.index_names()) {
      if (is_real_number(name)) node.fail("has an index in \"" + expression.text() + "\" that is no integer");
    }
    for (const Expression::Reference& reference : expression.references()) {
      if (!is_floating(reference.tensor) || (may_have_reals && !reference.in_index)) continue;
      node.fail("has " + name_of_tensor(reference.tensor) + " in \"" + expression.text() +
                "\", where integers are wanted");
    }
  }

  const std::string& name_of_tensor(size_t tensor) const {
    return tensor < spec_.tensors.size() ? spec_.tensors[tensor].name
                                         : result_.stages[tensor - spec_.tensors.size()].name;
  }
  bool is_real_number(size_t name) const {
    return name < spec_.scalars.size() ? adapters::is_real(spec_.scalars[name].type)
                                       : name >= names_.index(result_.indices.size()) && is_fraction(name);
  }

  bool is_fraction(size_t name) const { return (name - names_.index(result_.indices.size())) % 2 == 1; }

  // Which names an expression may have.
  enum class Which { kLaunch, kElement, kPoint, kCoordinate };

  Expression::Names names_of(const OutputSpec& output, bool reals, Which which) const {
    return [this, &output, reals, which](std::string_view name) { return name_of(output, reals, which, name); };
  }

  size_t name_of(const OutputSpec& output, bool reals, Which which, std::string_view name) const {
    const auto scalar = std::ranges::find(spec_.scalars, name, &ScalarSpec::name);
    if (scalar != spec_.scalars.end()) {
      if (scalar->type == ScalarType::kPointer) throw BadExpression(scalar->name + " is no number");
      if (adapters::is_real(scalar->type) && !reals) throw BadExpression(scalar->name + " is no integer");
      return static_cast<size_t>(scalar - spec_.scalars.begin());
    }
    const auto extent = std::ranges::find(kExtents, name);
    if (extent != std::end(kExtents)) return spec_.scalars.size() + static_cast<size_t>(extent - std::begin(kExtents));
    const size_t after = names_.index(result_.indices.size());
    if (which == Which::kCoordinate && name == "location") return after;
    if (which == Which::kCoordinate && name == "size") return after + 1;
    std::vector<std::string> known;
    const auto is_in = [](const std::vector<size_t>& list, size_t i) {
      return std::ranges::find(list, i) != list.end();
    };
    for (size_t i = 0; i < result_.indices.size(); ++i) {
      const bool of_element = which != Which::kLaunch;
      if (!(of_element && is_in(output.index, i)) && !(which == Which::kPoint && is_in(output.over, i))) continue;
      if (result_.indices[i].name == name) return names_.index(i);
      known.push_back(result_.indices[i].name);
    }
    for (size_t i = 0; which != Which::kLaunch && i < output.coordinates.size(); ++i) {
      const std::string& coordinate = output.coordinates[i].name;
      if (name == coordinate + ".cell") return after + 2 * i;
      if (name == coordinate + ".fraction" && !reals) throw BadExpression(std::string(name) + " is no integer");
      if (name == coordinate + ".fraction") return after + 2 * i + 1;
      known.insert(known.end(), {coordinate + ".cell", coordinate + ".fraction"});
    }
    if (which == Which::kCoordinate) known.insert(known.end(), {"location", "size"});
    for (const ScalarSpec& spec : spec_.scalars) {
      if (spec.type != ScalarType::kPointer) known.push_back(spec.name);
    }
    known.insert(known.end(), std::begin(kExtents), std::end(kExtents));
    throw BadExpression("there is no \"" + std::string(name) + "\" here; there are " + listed(known));
  }

  static void check_rank(const std::string& name, size_t dimensions, size_t rank) {
    if (rank == dimensions) return;
    throw BadExpression(name + " has " + std::to_string(dimensions) + " dimensions, not " + std::to_string(rank));
  }

  Expression::Tensors tensors(bool floating) const {
    return [this, floating](std::string_view name, size_t rank) {
      const auto found = std::ranges::find(spec_.tensors, name, &TensorSpec::name);
      const auto stage = std::ranges::find(result_.stages, name, &StageSpec::name);
      if (floating && stage != result_.stages.end()) {
        check_rank(stage->name, stage->index.size(), rank);
        return spec_.tensors.size() + static_cast<size_t>(stage - result_.stages.begin());
      }
      if (found == spec_.tensors.end() || !found->is_input) {
        throw BadExpression("there is no tensor \"" + std::string(name) + "\" of role input or inout");
      }
      if (found->type == kernels::kUInt8) {
        throw BadExpression(found->name + " is of type uint8, which operators do not read");
      }
      if (!floating && kernels::is_float(found->type)) throw BadExpression(found->name + " has no integers");
      check_rank(found->name, found->shape.size(), rank);
      return static_cast<size_t>(found - spec_.tensors.begin());
    };
  }

  const UserSpec& spec_;
  const Node& node_;
  OperatorNames names_;
  OperatorSpec result_;
};

}  // namespace

OperatorNames::OperatorNames(const UserSpec& spec) : first(spec.scalars.size() + std::size(kExtents)) {}

OperatorSpec read_operator(const UserSpec& spec, const Node& node) { return OperatorReader(spec, node).read(); }

}  // namespace msda::adapters
