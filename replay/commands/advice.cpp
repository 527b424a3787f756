#include "replay/commands/advice.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "recorder/text/words.h"
#include "replay/commands/simulation.h"

namespace msda::replay {
namespace {

// True for the samples that are kept.
std::string mask_code(double units, const analysis::PythonSamples& samples, const analysis::Simulation::Jumps& jumps) {
  std::string code =
      fmt::format("def away_from_cell_boundaries({}):\n    \"\"\"{}\"\"\"\n    size = {}\n    pixel = {}\n",
                  samples.parameters, samples.document, samples.size, samples.pixel);
  const auto [spacing, offset, scattered] = jumps;
  const std::string from = offset == 0 ? "pixel" : fmt::format("(pixel - {:g})", offset);
  const std::string boundary =
      spacing == 1 ? from + ".round()" : fmt::format("{:g} * ({} / {:g}).round()", spacing, from, spacing);
  code += fmt::format("    near = ({} - {}).abs() <= {:g} * torch.finfo(torch.float32).eps * size\n", from, boundary,
                      units);
  return code + "    return ~near.any(-1)\n\n\n";
}

std::string comparison(const std::string& indent, const char* kept, const Json& advised) {
  return fmt::format(
      "{}torch.testing.assert_close(gradient{}, expected[name]{}, atol={:g}, rtol={:g}, check_dtype=False)\n", indent,
      kept, kept, advised["atol"].get<double>(), advised["rtol"].get<double>());
}

std::string runs_text(const Json& probability) { return text::counted(count_at(probability, "runs"), "simulated run"); }

// Returns what to leave out, in an imperative that a comma may follow; or nothing.
std::string mask_text(const Json& advised) {
  const auto units = advised["units"].get<double>();
  if (advised["mask"] == "none") return "";
  if (advised["mask"] == "grad_output")
    return fmt::format("Set grad_output to 0 for samples within {:g} x 2^-23 x size of a tie between two pixels",
                       units);
  return fmt::format("Leave out samples within {:g} x 2^-23 x size of a cell boundary", units);
}

std::string first_line(const Json& a) {
  const Json& advised = a["advised"];
  const auto atol = advised["atol"].get<double>(), rtol = advised["rtol"].get<double>();
  if (!advised["sound"].get<bool>()) {
    return fmt::format("No tolerance makes this test sound: at atol {:g}, which it needs, gradients of 0 would pass.",
                       atol);
  }
  const std::string mask = mask_text(advised);
  if (!mask.empty()) return fmt::format("{}, and use atol {:g}, rtol {:g}.", mask, atol, rtol);
  const bool as_it_is = a["criterion"]["atol"] == advised["atol"];
  return fmt::format("{} atol {:g}, rtol {:g}; nothing has to be left out.", as_it_is ? "Keep" : "Use", atol, rtol);
}

// Returns what the runs of the test as it is say of other tolerances.
std::string as_it_is_text(const Json& a) {
  const Json& now = a["as_it_is"];
  const auto seen = now["seen_atol"].get<double>();
  if (now["blind"].get<bool>())
    return fmt::format(
        "They need up to atol {:g}, at which gradients of 0 would pass: no tolerance alone makes it sound.", seen);
  if (now["extrapolated"].get<bool>())
    return fmt::format("Extrapolated from their tail, the test passes in 999,999 of 1,000,000 runs with atol {:g}.",
                       now["atol"].get<double>());
  return fmt::format("They pass with atol {:g}; they say nothing about rarer failures.", seen);
}

}  // namespace

std::string patch_of(const Json& advice, const LoadedCall& loaded) {
  const Json& advised = advice["advised"];
  if (!advised["sound"].get<bool>()) return "";
  const auto samples = loaded.call().samples_in_python();
  const std::string& mask = advised["mask"].get_ref<const std::string&>();
  const char* documented = "    \"\"\"`observed`, `expected`: dicts of gradients by name.\"\"\"\n";
  const char* loop = "    for name, gradient in observed.items():\n";
  std::string code = "import torch\n\n\n";
  if (mask != "none" && samples) {
    code += mask_code(advised["units"].get<double>(), *samples, loaded.call().jumps());
  }
  if (mask == "grad_output" && samples) {
    code += fmt::format(
        "def without_ties(grad_output, {0}):\n"
        "    \"\"\"What both backward passes have to get in place of grad_output.\"\"\"\n"
        "    return grad_output * away_from_cell_boundaries({0})[:, None]\n\n\n",
        samples->parameters);
  }
  if (mask != "gradients") {
    code += fmt::format("def assert_gradients_close(observed, expected):\n{}{}", documented, loop);
    return code + comparison("        ", "", advised);
  }
  if (!samples) {  // an operator of the user's own knows itself which samples are kept
    code += fmt::format(
        "def assert_gradients_close(observed, expected, kept):\n"
        "    \"\"\"Dicts of gradients by name. `kept`: of masks, False for elements with a coordinate within {:g} x "
        "2^-23 x size of a whole number.\"\"\"\n{}",
        advised["units"].get<double>(), loop);
    return code + comparison("        ", "[kept[name]]", advised);
  }
  code += fmt::format("def assert_gradients_close(observed, expected, {}):\n{}", samples->parameters, documented);
  code += fmt::format("    sound = away_from_cell_boundaries({})\n{}", samples->parameters, loop);
  code += fmt::format("        kept = sound if name in ({}) else slice(None)\n", samples->gradients);
  return code + comparison("        ", "[kept]", advised);
}

Lines advice_text(const Json& a) {
  Lines lines;
  const Json &now = a["as_it_is"]["failure_probability"], &advised = a["advised"];
  const Json &checked = advised["failure_probability"], &score = advised["mutation"];
  lines.add("{}", first_line(a));
  lines.append(describe_text(a));
  lines.append(another_kernel_text(a["as_it_is"]));
  lines.blank();
  lines.add("As it is the test fails in {} of {}.", percent(now), runs_text(now));
  lines.add("{}", as_it_is_text(a));
  lines.add(
      "{} need{} at most atol {:g}{}.",
      advised["mask"] == "none" ? "Examined down to a quarter of the atol, they" : "With the mask, " + runs_text(now),
      now["runs"] == 1 && advised["mask"] != "none" ? "s" : "", advised["seen_atol"].get<double>(),
      advised["extrapolated"].get<bool>()
          ? fmt::format(", by their tail 999,999 of 1,000,000 at most {:g}", advised["needed_atol"].get<double>())
          : "");
  lines.add("With this advice {} of {} other runs fail: at most {:.2f} %.", checked["failures"], checked["runs"],
            100 * checked["high"].get<double>());
  lines.add("It then finds {} of {} kinds of planted faults ({:.1f} %).", score["found"], score["kinds"],
            100 * score["score"].get<double>());
  for (const auto& blind : a["blind_spots"]) {
    lines.add("  blind: {} as if {}", blind["tensor"], blind["as_if"]);
  }
  return lines;
}

std::string to_markdown(const Json& a) {
  const Json &now = a["as_it_is"], &advised = a["advised"], &score = advised["mutation"];
  const Json &before = now["failure_probability"], &after = advised["failure_probability"];
  const std::string mask = mask_text(advised);
  std::string text = "## Make the backward test sound\n\n";
  text +=
      fmt::format("The test compares with {} and fails in {} of {}, whatever the kernel does: {}.\n\n", a["against"],
                  percent(before), runs_text(before),
                  mask.empty() ? "rounding moves sums by more than the tolerance"
                               : "rounding carries a sample over a boundary in one of the two, and a gradient jumps "
                                 "there");
  text +=
      fmt::format("{}ompare with atol {:g}, rtol {:g}.\n\n| | before | after |\n|---|---|---|\n",
                  mask.empty() ? "C" : mask + ", and c", advised["atol"].get<double>(), advised["rtol"].get<double>());
  text += fmt::format("| fails, of simulated runs | {} of {} | {} of {} |\n", before["failures"], before["runs"],
                      after["failures"], after["runs"]);
  return text + fmt::format("| kinds of planted faults found | {} of {} | {} of {} |\n\n```python\n{}```\n",
                            now["mutation"]["found"], now["mutation"]["kinds"], score["found"], score["kinds"],
                            a["patch"]);
}

}  // namespace msda::replay
