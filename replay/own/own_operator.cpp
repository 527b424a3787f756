#include "replay/own/own_operator.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <string_view>
#include <vector>

#include "kernels/operator_rows.h"
#include "recorder/adapters/user.h"
#include "recorder/adapters/user_spec.h"
#include "replay/base/errors.h"
#include "replay/own/expression_operator.h"
#include "replay/own/library_operator.h"

namespace msda::replay {
namespace {

// Returns the operators of the files that the command line names. They are never destroyed, because gradients keep
// references to their names and descriptions.
std::vector<std::unique_ptr<const OwnOperator>>& operators() {
  static auto* const all = new std::vector<std::unique_ptr<const OwnOperator>>;
  return *all;
}

std::unique_ptr<const OwnOperator> make_operator(adapters::UserSpec spec, const std::string& file) {
  if (spec.op->library.empty()) return std::make_unique<ExpressionOperator>(std::move(spec));
  try {
    return std::make_unique<LibraryOperator>(std::move(spec), std::filesystem::path(file).parent_path().string());
  } catch (const BadInput& e) {
    throw BadInput(fmt::format("--operator {}: {}", file, e.what()));
  }
}

constexpr size_t kLargestDefinition = 1 << 20;  // as of an adapter file

// A definition in a capture that cannot be used: what does not need it works.
class UnusableOperator final : public OwnOperator {
 public:
  UnusableOperator(std::string name, std::string why) : name_(std::move(name)), why_(std::move(why)) {}

  const std::string& name() const override { return name_; }
  const std::string& adapter() const override { return name_; }
  std::shared_ptr<const OwnCall> bind(const capture::Invocation&, const std::string& where, const GetOwnTensor&,
                                      const GetOwnTensor&) const override {
    throw BadInput(fmt::format("{}: {}", where, why_));
  }

 private:
  std::string name_, why_;
};

std::unique_ptr<const OwnOperator> make_stored(const capture::Invocation& invocation, const std::string& definition) {
  std::string why = "definition: is not one adapter with an operator";
  try {
    if (definition.size() > kLargestDefinition) throw adapters::BadAdapterFile("definition: is larger than a megabyte");
    auto specs = adapters::parse_user_specs("definition", definition);
    if (specs.size() == 1 && specs[0].op && specs[0].op->library.empty()) {
      return std::make_unique<ExpressionOperator>(std::move(specs[0]));
    }
    if (specs.size() == 1 && specs[0].op) {
      why = "definition: names a library, and none is run because a capture says so; give the file by --operator";
    }
  } catch (const adapters::BadAdapterFile& e) {
    why = e.what();
  }
  const auto name = invocation.facts.texts.find("operator");
  return std::make_unique<UnusableOperator>(name == invocation.facts.texts.end() ? "unknown" : name->second, why);
}

// Returns the operator of the definition that an invocation holds, which stays for the process, too.
const OwnOperator* stored_operator(const capture::Invocation& invocation, const std::string& definition) {
  static std::mutex mutex;
  static auto* const all = new std::map<std::string, std::unique_ptr<const OwnOperator>>;
  const std::lock_guard lock(mutex);
  auto& known = (*all)[definition];
  if (known == nullptr) known = make_stored(invocation, definition);
  return known.get();
}

// Returns whether a definition may be of the invocation: parsing one takes milliseconds.
bool may_define(std::string_view definition, const capture::CallFacts& facts) {
  const auto names = [&](const std::string& name) { return definition.find('"' + name + '"') != definition.npos; };
  if (const auto adapter = facts.texts.find("adapter"); adapter != facts.texts.end()) return names(adapter->second);
  return std::ranges::any_of(facts.integers, [&](const auto& fact) { return names(fact.first); });
}

const OwnOperator* built_in_operator(const capture::Invocation& invocation) {
  static std::mutex mutex;
  static auto* const all = new std::map<std::string_view, std::vector<std::unique_ptr<const ExpressionOperator>>>;
  const std::lock_guard lock(mutex);
  for (const std::string_view definition : kernels::kOperatorDefinitions) {
    if (!may_define(definition, invocation.facts)) continue;
    const auto [made, is_new] = all->try_emplace(definition);
    for (adapters::UserSpec& spec :
         is_new ? adapters::built_in_specs(definition, /*with_operators=*/true) : std::vector<adapters::UserSpec>{}) {
      if (!spec.is_another_type) made->second.push_back(std::make_unique<ExpressionOperator>(std::move(spec)));
    }
    for (const auto& known : made->second) {
      if (known->takes(invocation)) return known.get();
    }
  }
  return nullptr;
}

}  // namespace

void read_operators(const std::string& file) {
  std::vector<adapters::UserSpec> specs;
  try {
    specs = adapters::read_user_specs(file);
  } catch (const adapters::BadAdapterFile& e) {
    throw BadInput(fmt::format("--operator {}", e.what()));
  }
  bool any = false;
  for (adapters::UserSpec& spec : specs) {
    if (!spec.op || spec.is_another_type) continue;
    any = true;
    for (const auto& known : operators()) {
      if (known->adapter() == spec.name) {
        throw BadInput(
            fmt::format("--operator {}: a second adapter named {}; give each its own name", file, spec.name));
      }
    }
    operators().push_back(make_operator(std::move(spec), file));
  }
  if (!any) {
    throw BadInput(fmt::format(
        "--operator {}: none of its adapters has an \"operator\"; docs/own-operators.md describes it", file));
  }
}

const OwnOperator* own_operator_of(const capture::Invocation& invocation) {
  const capture::CallFacts& facts = invocation.facts;
  if (!facts.dialect.empty()) return nullptr;
  const auto adapter = facts.texts.find("adapter"), definition = facts.texts.find("definition");
  for (const auto& known : operators()) {
    if (adapter != facts.texts.end() && known->adapter() == adapter->second) return known.get();
  }
  if (definition != facts.texts.end()) return stored_operator(invocation, definition->second);
  return built_in_operator(invocation);
}

std::string read_adapters() {
  std::string names;
  for (const auto& known : operators()) names += (names.empty() ? "" : ", ") + known->adapter();
  return names;
}

}  // namespace msda::replay
