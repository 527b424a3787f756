#include "recorder/adapters/user.h"

#include <charconv>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "recorder/adapters/decode.h"
#include "recorder/adapters/user_spec.h"

namespace msda::adapters {
namespace {

// Returns the number in the fewest digits that identify it, independent of the program's locale.
template <class T>
std::string format_number(T number) {
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, number).ptr};
}

// Reads one launch by one spec.
class Reading {
 public:
  Reading(const UserSpec& spec, const Launch& launch) : spec_(spec), launch_(launch) {}

  // Returns whether the parameters have the sizes of the spec. The driver gives the offsets.
  bool fits() const {
    if (launch_.parameters.size() != spec_.sizes.size()) return false;
    uint64_t end = 0;
    for (size_t i = 0; i < spec_.sizes.size(); ++i) {
      const auto& [offset, size] = launch_.parameters[i];
      if (size != spec_.sizes[i] || offset < end || offset > launch_.bytes.size()) return false;
      if (size > launch_.bytes.size() - offset) return false;
      end = offset + size;
    }
    return true;
  }

  Expression::Value value(size_t name) const {
    if (name >= spec_.scalars.size()) {
      const size_t extent = name - spec_.scalars.size();
      return int64_t{extent < 3 ? launch_.grid[extent] : launch_.block[extent - 3]};
    }
    const ScalarSpec& scalar = spec_.scalars[name];
    switch (scalar.type) {
      case ScalarType::kInt32:
        return int64_t{bits<int32_t>(scalar)};
      case ScalarType::kInt64:
        return bits<int64_t>(scalar);
      case ScalarType::kUInt32:
        return int64_t{bits<uint32_t>(scalar)};
      case ScalarType::kUInt64: {
        const auto number = bits<uint64_t>(scalar);
        if (number >> 63) return Refusal{scalar.name + " is " + std::to_string(number) + ", more than 63 bits hold"};
        return static_cast<int64_t>(number);
      }
      case ScalarType::kBool: {
        const auto flag = bits<uint8_t>(scalar);
        if (flag > 1) return Refusal{scalar.name + " is " + std::to_string(flag) + ", not a bool"};
        return int64_t{flag};
      }
      default:
        return Refusal{scalar.name + " is no integer"};  // the file's reader rejects such a file
    }
  }

  // Returns nothing for a scalar that is no real number.
  std::optional<double> real(size_t scalar) const {
    const ScalarSpec& spec = spec_.scalars[scalar];
    if (spec.type == ScalarType::kFloat32) return double{bits<float>(spec)};
    if (spec.type == ScalarType::kFloat64) return bits<double>(spec);
    return std::nullopt;
  }

  bool has(const TensorSpec& spec) const {
    return !spec.present_if || !spec.present_if->fault([this](size_t name) { return value(name); });
  }

  std::variant<DeviceTensor, Refusal> tensor(const TensorSpec& spec) const {
    DeviceTensor tensor{{spec.name, spec.type, {}}, bits<uint64_t>(spec_.scalars[spec.pointer])};
    for (const auto& [expressions, numbers] :
         {std::pair{&spec.shape, &tensor.shape}, {&spec.strides, &tensor.strides}}) {
      for (const Expression& expression : *expressions) {
        const auto number = expression.value([this](size_t name) { return value(name); });
        if (const auto* refusal = std::get_if<Refusal>(&number)) return Refusal{spec.name + ": " + refusal->reason};
        numbers->push_back(std::get<int64_t>(number));
      }
    }
    if (auto fault = fault_of(tensor)) return *std::move(fault);
    return tensor;
  }

  // Returns each pointer with the tensor that it points to. Pointers in bytes that the file does not name are unknown.
  std::vector<Pointer> pointers() const {
    std::vector<Pointer> pointers;
    std::vector<bool> named(spec_.sizes.size(), false);
    for (size_t i = 0; i < spec_.scalars.size(); ++i) {
      const ScalarSpec& scalar = spec_.scalars[i];
      named[scalar.parameter] = true;
      if (scalar.type != ScalarType::kPointer) continue;
      const uint64_t offset = launch_.parameters[scalar.parameter].offset + scalar.offset;
      const size_t before = pointers.size();
      for (const TensorSpec& tensor : spec_.tensors) {
        if (tensor.pointer != i || !has(tensor)) continue;
        if (tensor.is_input) pointers.push_back({offset, "inputs/" + tensor.name});
        if (tensor.is_output) pointers.push_back({offset, "outputs/" + tensor.name});
      }
      if (pointers.size() == before) pointers.push_back({offset, ""});
    }
    for (size_t i = 0; i < named.size(); ++i) {
      if (spec_.are_pointers[i] && !named[i]) pointers.push_back({launch_.parameters[i].offset, ""});
    }
    return pointers;
  }

  // Returns the kernel's scalar arguments as text: "rows=6 scale.alpha=0.5", and a hash of all bytes without a name.
  // Launches that differ here are different calls, even if their tensors are equal.
  std::string scalars() const {
    std::string words;
    for (size_t i = 0; i < spec_.scalars.size(); ++i) {
      const ScalarSpec& scalar = spec_.scalars[i];
      if (scalar.type == ScalarType::kPointer) continue;
      words += (words.empty() ? "" : " ") + scalar.name + "=";
      const auto integer = value(i);
      if (scalar.type == ScalarType::kFloat32) {
        words += format_number(bits<float>(scalar));
      } else if (scalar.type == ScalarType::kFloat64) {
        words += format_number(bits<double>(scalar));
      } else if (scalar.type == ScalarType::kUInt64) {
        words += format_number(bits<uint64_t>(scalar));
      } else {
        words += std::holds_alternative<int64_t>(integer) ? format_number(std::get<int64_t>(integer)) : "?";
      }
    }
    if (const auto hash = unnamed()) {
      words += (words.empty() ? "" : " ") + std::string("unnamed=") + format_number(*hash);
    }
    return words;
  }

 private:
  // Returns FNV-1a of the bytes that belong to no scalar or pointer; nothing if there are none.
  std::optional<uint64_t> unnamed() const {
    uint64_t hash = 0xcbf29ce484222325;
    bool any = false;
    for (size_t i = 0; i < spec_.sizes.size(); ++i) {
      std::vector<bool> known(spec_.sizes[i], spec_.are_pointers[i]);
      for (const ScalarSpec& scalar : spec_.scalars) {
        if (scalar.parameter != i) continue;
        for (uint64_t at = 0; at < scalar.size; ++at) known[scalar.offset + at] = true;
      }
      for (uint64_t at = 0; at < known.size(); ++at) {
        if (known[at]) continue;
        any = true;
        hash = (hash ^ static_cast<uint8_t>(launch_.bytes[launch_.parameters[i].offset + at])) * 0x100000001b3;
      }
    }
    return any ? std::optional(hash) : std::nullopt;
  }

  template <class T>
  T bits(const ScalarSpec& scalar) const {
    T value;
    std::memcpy(&value, launch_.bytes.data() + launch_.parameters[scalar.parameter].offset + scalar.offset,
                sizeof value);
    return value;
  }

  const UserSpec& spec_;
  const Launch& launch_;
};

class UserAdapter final : public Adapter {
 public:
  explicit UserAdapter(UserSpec spec) : spec_(std::move(spec)) {}

  std::string_view name() const override { return spec_.name; }

  bool matches(std::string_view kernel) const override {
    try {
      return spec_.kernel.is_found_in(kernel);
    } catch (const std::invalid_argument&) {  // it takes too long, or too much memory
      return false;
    }
  }

  Decoded decode(const Launch& launch, const ReadDevice&) const override {
    const auto refused = [this](const std::string& reason) { return Refusal{"adapter " + spec_.name + ": " + reason}; };
    const Reading reading(spec_, launch);
    if (!reading.fits()) {
      std::string wanted;
      for (const uint64_t size : spec_.sizes) wanted += " " + std::to_string(size);
      return refused(describe_layout(launch) + ", not" + wanted + " bytes");
    }
    for (const Condition& condition : spec_.conditions) {
      if (const auto fault = condition.fault([&](size_t name) { return reading.value(name); })) {
        return refused(fault->reason);
      }
    }
    Call call{.dialect = spec_.dialect,
              .padding = spec_.padding,
              .align_corners = spec_.align_corners,
              .facts = {.texts = {{"adapter", spec_.name}, {"scalars", reading.scalars()}}}};
    if (spec_.op) call.facts.texts["operator"] = spec_.op->name;
    call.pointers = reading.pointers();
    for (const size_t fact : spec_.facts) {
      if (const auto real = reading.real(fact)) {
        call.facts.reals[spec_.scalars[fact].name] = *real;
        continue;
      }
      const auto number = reading.value(fact);
      if (const auto* refusal = std::get_if<Refusal>(&number)) return refused(refusal->reason);
      call.facts.integers[spec_.scalars[fact].name] = std::get<int64_t>(number);
    }
    for (const auto& [name, text] : spec_.texts) call.facts.texts[name] = text;
    for (const auto& [name, expression] : spec_.numbers) {
      const auto number = expression.value([&](size_t value) { return reading.value(value); });
      if (const auto* refusal = std::get_if<Refusal>(&number)) return refused(name + ": " + refusal->reason);
      call.facts.integers[name] = std::get<int64_t>(number);
    }
    for (const TensorSpec& spec : spec_.tensors) {
      if (!reading.has(spec)) continue;
      auto tensor = reading.tensor(spec);
      if (const auto* refusal = std::get_if<Refusal>(&tensor)) return refused(refusal->reason);
      if (spec.is_input) call.inputs.push_back(std::get<DeviceTensor>(tensor));
      if (spec.is_output) call.outputs.push_back(std::get<DeviceTensor>(tensor));
    }
    return call;
  }

 private:
  const UserSpec spec_;
};

}  // namespace

std::unique_ptr<const Adapter> user_adapter(UserSpec spec) { return std::make_unique<UserAdapter>(std::move(spec)); }

}  // namespace msda::adapters
