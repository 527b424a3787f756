// Kernels in PTX with one atomic each, once for a floating-point addition and once for each operation of its twin, with
// the same operands.
#pragma once

#include <string>
#include <string_view>

namespace msda::record::test {

struct AtomicShape {
  const char* name;
  const char* opcode;  // what ptxas makes of it
  const char* ptx;     // without operation and operands
  bool returns;
  const char* address = "[%a1]";
  bool predicated = false;
  const char* hint = "";  // .L2::cache_hint
};
// The first three are compiled for each type.
inline constexpr AtomicShape kAtomicShapes[] = {
    {"red", "RED", "red.global", false},
    {"atomg", "ATOMG", "atom.global", true},
    {"atom", "ATOM", "atom", true},
    {"atom_unused", "ATOM", "red", false},
    {"atomg_unused", "ATOMG", "atom.acquire.gpu.global", false},
    {"system", "RED", "red.relaxed.sys.global", false},
    {"block", "ATOMG", "atom.acq_rel.cta.global", true},
    {"offset", "RED", "red.global", false, "[%a1+1024]"},
    {"negative", "ATOMG", "atom.global", true, "[%a1+-512]"},
    {"predicated", "RED", "red.global", false, "[%a1]", true},
    {"hint", "RED", "red.global", false, "[%a1]", false, ".L2::cache_hint"},
};

struct AtomicType {
  const char* name;      // of an element
  const char* addition;  // in PTX
  const char* type;      // in PTX
  int elements, bits;    // bits of all elements
  int first_architecture;
  const char* greatest = nullptr;  // where integers have none
};
inline constexpr AtomicType kAtomicTypes[] = {
    {"f32", "add", "f32", 1, 32, 80},
    {"f64", "add", "f64", 1, 64, 80},
    {"f16", "add.noftz", "f16x2", 2, 32, 80},
    {"bf16", "add.noftz", "bf16x2", 2, 32, 90},
    {"f32", "add", "v2.f32", 2, 64, 90},
    {"f16", "add.noftz", "v2.f16x2", 4, 64, 90},
    {"bf16", "add.noftz", "v2.bf16x2", 4, 64, 90},
    {"f32", "add", "v4.f32", 4, 128, 90, "v4.bf16x2"},
    {"f16", "add.noftz", "v4.f16x2", 8, 128, 90, "v4.f16x2"},
    {"bf16", "add.noftz", "v4.bf16x2", 8, 128, 90, "v4.bf16x2"},
};

enum class AtomicOperation { kFloat, kAdd, kXor, kMax, kCount, kGreatest, kLeast, kNothing };
inline constexpr AtomicOperation kIntegerOperations[] = {
    AtomicOperation::kAdd,      AtomicOperation::kXor,   AtomicOperation::kMax,    AtomicOperation::kCount,
    AtomicOperation::kGreatest, AtomicOperation::kLeast, AtomicOperation::kNothing};
// Whose operand is another than the addition's.
inline constexpr bool has_other_operand(AtomicOperation operation) {
  return operation == AtomicOperation::kCount || operation == AtomicOperation::kNothing;
}
inline constexpr bool is_extreme(AtomicOperation operation) {
  return operation == AtomicOperation::kGreatest || operation == AtomicOperation::kLeast;
}

inline bool exists(const AtomicShape& shape, const AtomicType& type, int architecture) {
  const bool vector = type.type[0] == 'v', global = std::string_view(shape.ptx).ends_with(".global");
  const bool first_shapes = &shape < kAtomicShapes + 3, first_type = &type == kAtomicTypes;
  return architecture >= type.first_architecture && (first_type || first_shapes) && (global || !vector);
}
// Whether the addition has such a twin. PTX has a maximum of pairs from sm_90 on, and not at generic addresses.
inline bool has_twin(const AtomicShape& shape, const AtomicType& type, AtomicOperation operation, int architecture) {
  const bool is_generic = shape.opcode == std::string_view("ATOM");
  if (has_other_operand(operation)) return !shape.returns || type.bits == 32;
  if (is_extreme(operation)) {
    return type.elements == 1 || (type.bits == 32 && architecture >= 90 && !is_generic);
  }
  return type.bits <= 64 || operation == AtomicOperation::kFloat || operation == AtomicOperation::kMax;
}

inline std::string kernel_name(const AtomicShape& shape, const AtomicType& type, AtomicOperation operation) {
  constexpr const char* kNames[] = {"float", "add", "xor", "max", "count", "greatest", "least", "nothing"};
  return std::string(shape.name) + "_" + type.name + "_" + std::to_string(type.elements) + "_" +
         kNames[static_cast<int>(operation)];
}

// The operation, with the cache hint where PTX has it: before the type.
inline std::string atomic_operation(const AtomicShape& shape, const AtomicType& type, AtomicOperation operation) {
  const std::string hint = shape.hint, bits = std::to_string(type.bits);
  switch (operation) {
    case AtomicOperation::kFloat:
      return std::string(type.addition) + hint + "." + type.type;
    case AtomicOperation::kAdd:
      return "add" + hint + ".u" + bits;
    case AtomicOperation::kXor:
      return "xor" + hint + ".b" + bits;
    case AtomicOperation::kMax:
      return type.greatest != nullptr ? std::string("max.noftz") + hint + "." + type.greatest
                                      : "max" + hint + ".u" + bits;
    case AtomicOperation::kCount:
    case AtomicOperation::kNothing:
      return "add" + hint + ".u32";
    case AtomicOperation::kGreatest:
      return type.elements > 1 ? "max.noftz" + hint + ".v2." + type.name : "max" + hint + ".s" + bits;
    case AtomicOperation::kLeast:
      return type.elements > 1 ? "min.noftz" + hint + ".v2." + type.name : "max" + hint + ".u" + bits;
  }
  return {};
}

// Registers from %r<first> or %d<first>, as an operand of an operation.
inline std::string atomic_operand(const AtomicType& type, AtomicOperation operation, int first) {
  const auto r = [&](int i) { return "%r" + std::to_string(first + i); };
  if (is_extreme(operation) && type.elements > 1) {
    return "{%h" + std::to_string(first) + ", %h" + std::to_string(first + 1) + "}";
  }
  if (has_other_operand(operation) || type.bits == 32) return r(0);
  if (type.bits == 128) return "{" + r(0) + ", " + r(1) + ", " + r(2) + ", " + r(3) + "}";
  const bool pair = operation == AtomicOperation::kFloat && type.type[0] == 'v';
  return pair ? "{" + r(0) + ", " + r(1) + "}" : "%d" + std::to_string(first);
}

// Loads a value, adds it to memory of each thread's own, and stores what memory held if the instruction returns that.
inline std::string kernel_text(const AtomicShape& shape, const AtomicType& type, AtomicOperation operation) {
  const bool count = operation == AtomicOperation::kCount, nothing = operation == AtomicOperation::kNothing;
  const bool vector = type.bits == 64 && type.type[0] == 'v', halves = is_extreme(operation) && type.elements > 1;
  const std::string width = type.bits == 128 ? ".v4.b32" : ".b" + std::to_string(type.bits);
  const std::string loaded = type.bits == 64 ? "%d1" : halves ? "%r1" : atomic_operand(type, operation, 1);
  std::string text = ".visible .entry " + kernel_name(shape, type, operation) +
                     "(.param .u64 p, .param .u64 q) {\n"
                     ".reg .b64 %a<5>; .reg .b64 %d<20>; .reg .b32 %r<30>; .reg .b16 %h<20>; .reg .pred %t;\n"
                     "ld.param.u64 %a3, [p]; ld.param.u64 %a4, [q]; mov.u32 %r0, %tid.x;\n"
                     "mad.wide.u32 %a1, %r0, 64, %a3; mad.wide.u32 %a2, %r0, 64, %a4;\n";
  text += "ld.volatile.global" + (has_other_operand(operation) && type.bits == 128 ? ".b32" : width) + " " + loaded +
          ", [%a2];\n";
  if (vector) text += "mov.b64 {%r1, %r2}, %d1;\n";
  if (halves) text += "mov.b32 {%h1, %h2}, %r1;\n";
  if (count) text += "mov.b64 {%r20, %r21}, %a1;\n";
  if (shape.hint[0] != '\0') text += "createpolicy.fractional.L2::evict_last.b64 %d3, 1.0;\n";
  if (shape.predicated) text += "setp.gt.u32 %t, %r0, 5;\n@%t ";
  text += std::string(shape.ptx) + "." + atomic_operation(shape, type, operation) + " ";
  if (shape.ptx[0] == 'a') text += atomic_operand(type, operation, 11) + ", ";
  text += std::string(shape.address) + ", " + (count ? "%r21" : nothing ? "0" : atomic_operand(type, operation, 1));
  text += std::string(shape.hint[0] != '\0' ? ", %d3" : "") + ";\n";
  if (shape.returns && vector && operation == AtomicOperation::kFloat) text += "mov.b64 %d11, {%r11, %r12};\n";
  if (shape.returns && halves) text += "mov.b32 %r11, {%h11, %h12};\n";
  const std::string stored = type.bits == 64 ? "%d11" : halves ? "%r11" : atomic_operand(type, operation, 11);
  if (shape.returns) text += "st.global" + width + " [%a2], " + stored + ";\n";
  return text + "ret;\n}\n";
}

// Every kernel that exists for an architecture, in the first version of PTX that knows them and it.
inline std::string atomic_kernels(int architecture) {
  const bool newest = architecture == 103 || architecture == 110 || architecture == 121;
  std::string text = std::string(".version ") + (newest ? "9.0" : "8.7") + "\n.target sm_" +
                     std::to_string(architecture) + "\n.address_size 64\n";
  for (const AtomicShape& shape : kAtomicShapes) {
    for (const AtomicType& type : kAtomicTypes) {
      if (!exists(shape, type, architecture)) continue;
      text += kernel_text(shape, type, AtomicOperation::kFloat);
      for (const AtomicOperation operation : kIntegerOperations) {
        if (has_twin(shape, type, operation, architecture)) text += kernel_text(shape, type, operation);
      }
    }
  }
  return text;
}

}  // namespace msda::record::test
