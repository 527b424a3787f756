#include "replay/export/python_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "kernels/names.h"
#include "recorder/text/escape.h"
#include "recorder/writer/version.h"
#include "replay/calls/operator_row.h"
#include "replay/export/operator_source.h"
#include "replay/export/part.h"
#include "replay/export/source_text.h"

namespace msda::replay {
namespace {

// Returns a tuple, also of one number.
std::string tuple(const analysis::Index& numbers) {
  return fmt::format("({}{})", fmt::join(numbers, ", "), numbers.size() == 1 ? "," : "");
}

std::string python_head(const ExportedCall& call, const std::string& archive) {
  std::string text =
      // Python reads an encoding from the first two lines: the capture's name, which may hold "coding=", stands below.
      fmt::format(
          "# -*- coding: utf-8 -*-\n#\n# Reproducer by msda-replay {} of invocation {} of {}. Run it: python3 -m "
          "pytest FILE\n",
          record::version(), call.invocation().id, text::escaped(call.capture));
  text += "# It needs pytest and NumPy";
  if (!archive.empty()) text += fmt::format(", and {} beside it", text::escaped(archive));
  text += ". It fails while the recorded gradient is out of tolerance.\n#\n";
  text += diagnosis_comment(call, "# ");
  text +=
      "\nimport collections\nimport functools\nimport itertools\nimport math\nimport operator\nimport pathlib\nimport "
      "sys\nfrom fractions import Fraction\n\nimport numpy as np\nfrom numpy import inf\n\n";
  return text;
}

std::string python_facts(const ExportedCall& call, const OperatorSource& source) {
  const analysis::Finding& finding = call.finding();
  const analysis::Tolerance tolerance = call.tolerance();
  std::string text;
  text += fmt::format("TENSOR, INDEX = {}, {}\n", string_literal(finding.gradient.name()), tuple(finding.index));
  text += fmt::format("AGAINST = {}  # what the recorded gradient is compared with\n", string_literal(finding.against));
  text +=
      fmt::format("ATOL, RTOL = {}, {}{}\n", tolerance.atol, tolerance.rtol,
                  call.result().tolerance ? "" : "  # as tests of this operator usually have them; none was recorded");
  text += fmt::format("CAUSE, AT_FAULT = {}, {}\n", string_literal(name_of(finding.cause)),
                      string_literal(name_of(finding.at_fault)));
  text += fmt::format("WHY = {}\n\n", string_literal(finding.why));
  text += definitions(source.conventions, Language::kPython);
  std::vector<std::string> others;
  for (const std::string& dialect : call.other_dialects()) others.push_back(string_literal(dialect));
  text += fmt::format("OTHER_DIALECTS = [{}]\n", fmt::join(others, ", "));
  text += fmt::format("ARITHMETIC = {}  # of kernels on these inputs\n",
                      string_literal(kernels::name_of(call.call().arithmetic())));
  return text;
}

// NumPy's type of a tensor in the source; bfloat16 is widened.
const char* numpy_type(msda_dtype dtype) { return dtype == MSDA_BFLOAT16 ? "float32" : kernels::name_of(dtype); }

std::string inline_tensors(const std::vector<KeyedTensor>& tensors) {
  constexpr size_t kShort = 60;
  std::string text = "TENSORS = {\n";
  for (const KeyedTensor& keyed : tensors) {
    std::string numbers = literals(keyed.tensor, Language::kPython, 8);
    numbers = numbers.size() <= kShort ? numbers.substr(8) : "\n" + numbers + "\n    ";
    text += fmt::format("    {}: np.array([{}], np.{}).reshape({}),\n", string_literal(keyed.key), numbers,
                        numpy_type(keyed.tensor.dtype), tuple(keyed.tensor.shape));
  }
  return text + "}\n";
}

// Reads the archive that has the name of the file itself, but for its ending.
const char* read_tensors() {
  return "\n\ndef widened(array, stored):\n"
         "    \"\"\"NumPy lacks bfloat16: its bits are the upper half of a float32's.\"\"\"\n"
         "    return (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32) if stored == \"bfloat16\" else "
         "array\n"
         "\n\n"
         "with np.load(pathlib.Path(__file__).with_suffix(\".npz\")) as archive:\n"
         "    TENSORS = {name: widened(archive[name], stored) for name, stored in STORED.items()}\n";
}

}  // namespace

std::string python_source(const ExportedCall& call, const std::string& archive) {
  const std::vector<KeyedTensor> tensors = call.tensors(true);
  const OperatorSource source = operator_source(call).value();
  std::string text = python_head(call, archive) + python_facts(call, source);
  text += "STORED = {  # the types that the tensors were recorded in\n";
  for (const KeyedTensor& keyed : tensors) {
    text +=
        fmt::format("    {}: {},\n", string_literal(keyed.key), string_literal(kernels::name_of(keyed.tensor.dtype)));
  }
  text += "}\n";
  text += archive.empty() ? inline_tensors(tensors) : read_tensors();
  text += "\n\n";
  text += part("python/arithmetic.py");
  text += source.python;
  text += part("python/check.py");
  // Where PyTorch computed what the recorded gradient was compared with, or what it should be.
  const std::vector<std::string> others = call.other_dialects();
  const bool is_other = std::ranges::find(others, dialect_of_tests()) != others.end();
  const bool has_dialects = call.call().dialects() != nullptr;
  const bool by_torch = source.python.find("\ndef grad_by_torch(") != std::string::npos &&
                        (!has_dialects || call.invocation().facts.dialect == dialect_of_tests() || is_other);
  if (by_torch && call.finding().against != "float64") text += part("python/with_torch.py");
  return text + part("python/main.py");
}

}  // namespace msda::replay
