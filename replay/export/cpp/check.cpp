
// --- The comparison.

double computed(const std::string& dialect, const std::string& arithmetic, Steps& steps) {
  steps.arithmetic = arithmetic;
  const double value =
      arithmetic == "float64" ? gradient<double>(dialect, steps) : static_cast<double>(gradient<float>(dialect, steps));
  steps.add("value", value);
  return value;
}

void print_steps(const std::string& dialect, const std::string& arithmetic) {
  Steps steps;
  computed(dialect, arithmetic, steps);
  std::printf("  %s in %s:\n", dialect.c_str(), arithmetic.c_str());
  for (const auto& [name, value] : steps.all) std::printf("    %-18s %s\n", name.c_str(), value.c_str());
}

// Compares as torch.testing.assert_close does; what is compared with exact results must be finite.
bool within_tolerance(double value, double reference) {
  if (value == reference) return kAgainst != std::string("float64") || std::isfinite(value);
  return std::isfinite(reference) && std::abs(value - reference) <= kAtol + kRtol * std::abs(reference);
}

std::string text_of(const std::string& type, double value) {
  char text[48];
  std::snprintf(text, sizeof text, "%.*g", type == "float64" ? 17 : 9, value);
  return std::string(text) + " (" + type + " " + bits_of(type, value) + ")";
}

int main(int argc, char** argv) {
  if (kFile[0] != 0) read_tensors(argc > 1 ? argv[1] : kFile);
  const Tensor& recorded = tensors.at(std::string("observed_") + kTensor);
  const double observed = recorded.at(kIndex);
  double expected = 0;
  std::string type = recorded.stored;
  Steps steps;
  if (kAgainst == std::string("reference")) {
    const Tensor& reference = tensors.at(std::string("reference_") + kTensor);
    expected = reference.at(kIndex);
    type = reference.stored;
  } else if (kAgainst == std::string("float64")) {
    expected = computed(kDialect, "float64", steps);
    type = "float64";
  } else {
    expected = rounded_to(type, computed(kAgainst, kArithmetic, steps));
  }
  const bool holds = within_tolerance(observed, expected);
  std::printf("%s is %s tolerance\n", kElement, holds ? "within" : "out of");
  std::printf("  recorded: %s\n", text_of(recorded.stored, observed).c_str());
  std::printf("  %s: %s\n", kAgainst, text_of(type, expected).c_str());
  std::printf("  apart: %g, allowed %g (atol %g, rtol %g)\n", std::abs(observed - expected),
              kAtol + kRtol * std::abs(expected), kAtol, kRtol);
  if (holds) return 0;
  std::printf("  cause: %s, at fault: %s\n  why: %s\n", kCause, kAtFault, kWhy);
  print_steps(kDialect, kArithmetic);
  for (const char* dialect : kOtherDialects) print_steps(dialect, kArithmetic);
  if (kArithmetic != std::string("float64")) print_steps(kDialect, "float64");
  return 1;
}
