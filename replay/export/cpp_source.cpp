#include "replay/export/cpp_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "kernels/names.h"
#include "recorder/text/escape.h"
#include "recorder/writer/version.h"
#include "replay/base/file_kind.h"
#include "replay/export/operator_source.h"
#include "replay/export/part.h"
#include "replay/export/source_text.h"
#include "replay/report/diagnosis.h"

namespace msda::replay {
namespace {

std::vector<KeyedTensor> sorted_tensors(const ExportedCall& call) {
  std::vector<KeyedTensor> tensors = call.tensors(true);
  std::ranges::sort(tensors, {}, &KeyedTensor::key);
  return tensors;
}

std::string cpp_head(const ExportedCall& call, const std::string& file) {
  std::string text =
      fmt::format("// Reproducer by msda-replay {} of invocation {} of {}. Run it: c++ -std=c++20 FILE && ./a.out\n",
                  record::version(), call.invocation().id, text::escaped(call.capture));
  text += "// It needs no library. Exit status 1: the recorded gradient is out of tolerance, 0: it is within.\n";
  if (!file.empty())
    text += fmt::format("// It reads {} from the current folder, or the file that its argument names.\n",
                        text::escaped(file));
  text += "//\n" + diagnosis_comment(call, "// ") + "\n";
  for (const char* header : {"algorithm", "array", "bit", "cmath", "cstdint", "cstdio", "cstdlib", "fstream", "map",
                             "string", "type_traits", "utility", "vector"}) {
    text += fmt::format("#include <{}>\n", header);
  }
  return text + "\n";
}

std::string constant(const char* name, std::string_view value) {
  return fmt::format("constexpr char {}[] = {};\n", name, string_literal(value));
}

std::string cpp_facts(const ExportedCall& call, const OperatorSource& source, const std::string& file) {
  const analysis::Finding& finding = call.finding();
  const analysis::Tolerance tolerance = call.tolerance();
  std::string text = constant("kTensor", finding.gradient.name());
  text += constant("kElement", element_name(finding));
  text += fmt::format("const std::vector<long> kIndex = {{{}}};\n", fmt::join(finding.index, ", "));
  text += constant("kAgainst", finding.against);
  text +=
      fmt::format("constexpr double kAtol = {}, kRtol = {};{}\n", tolerance.atol, tolerance.rtol,
                  call.result().tolerance ? "" : "  // as tests of this operator usually have them; none was recorded");
  text += constant("kCause", name_of(finding.cause)) + constant("kAtFault", name_of(finding.at_fault));
  text += constant("kWhy", finding.why) + "\n";
  text += definitions(source.conventions, Language::kCpp);
  std::vector<std::string> others;
  for (const std::string& dialect : call.other_dialects()) others.push_back(string_literal(dialect));
  text += fmt::format("const std::vector<const char*> kOtherDialects = {{{}}};\n", fmt::join(others, ", "));
  text += constant("kArithmetic", kernels::name_of(call.call().arithmetic()));
  return text + constant("kFile", file) + "\n";
}

std::string tensors_text(const ExportedCall& call, bool with_numbers) {
  std::string text = "std::map<std::string, Tensor> tensors = {\n";
  for (const KeyedTensor& keyed : sorted_tensors(call)) {
    text += fmt::format("    {{{},\n     {{{}, {{{}}}, {{", string_literal(keyed.key),
                        string_literal(kernels::name_of(keyed.tensor.dtype)), fmt::join(keyed.tensor.shape, ", "));
    if (with_numbers) text += "\n" + literals(keyed.tensor, Language::kCpp, 8);
    text += "}}},\n";
  }
  return text + "};\n";
}

}  // namespace

std::string cpp_source(const ExportedCall& call, const std::string& file) {
  const OperatorSource source = operator_source(call).value();
  std::string text = cpp_head(call, file) + cpp_facts(call, source, file);
  text += part("cpp/tensors.cpp");
  text += tensors_text(call, file.empty());
  text += file.empty() ? "\nvoid read_tensors(const char*) {}\n" : part("cpp/read_file.cpp");
  text += part("cpp/arithmetic.cpp");
  text += part("cpp/steps.cpp");
  text += source.cpp;
  return text + part("cpp/check.cpp");
}

std::string tensor_bytes(const ExportedCall& call) {
  std::string bytes;
  for (const KeyedTensor& keyed : sorted_tensors(call)) {
    bytes.append(static_cast<const char*>(keyed.tensor.data), keyed.bytes().size());
  }
  return bytes + kTrailer;
}

}  // namespace msda::replay
