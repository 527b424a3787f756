
// What was computed on the way, as text.
struct Steps {
  std::string arithmetic;
  std::vector<std::pair<std::string, std::string>> all;

  template <class Number>
  void add(const std::string& name, Number value) {
    char text[64];
    if (std::is_integral<Number>::value) {
      std::snprintf(text, sizeof text, "%ld", static_cast<long>(value));
    } else {
      const auto number = static_cast<double>(value);
      std::snprintf(text, sizeof text, "%.*g (%s)", arithmetic == "float64" ? 17 : 9, number,
                    bits_of(arithmetic, number).c_str());
    }
    all.emplace_back(name, text);
  }
};
