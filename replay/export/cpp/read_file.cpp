
// Little-endian numbers of the stored type, one tensor after the other.
double number_of(const std::string& type, const unsigned char* bytes) {
  std::uint64_t bits = 0;
  const int size = type == "float16" || type == "bfloat16" ? 2 : type == "float64" || type == "int64" ? 8 : 4;
  for (int i = size; i-- > 0;) bits = bits << 8 | bytes[i];
  if (type == "int32") return static_cast<double>(static_cast<std::int32_t>(bits));
  if (type == "int64") return static_cast<double>(static_cast<std::int64_t>(bits));
  if (type == "float64") return std::bit_cast<double>(bits);
  if (type == "float32") return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  if (type == "bfloat16") return std::bit_cast<float>(static_cast<std::uint32_t>(bits << 16));
  const double sign = bits & 0x8000 ? -1 : 1;
  const int exponent = static_cast<int>(bits >> 10 & 31);
  const auto fraction = static_cast<double>(bits & 1023);
  if (exponent == 31) return fraction != 0 ? NAN : sign * INFINITY;
  return exponent == 0 ? sign * std::ldexp(fraction, -24) : sign * std::ldexp(1024 + fraction, exponent - 25);
}

void read_tensors(const char* path) {
  std::ifstream file(path, std::ios::binary);
  for (auto& [name, tensor] : tensors) {
    const std::string& type = tensor.stored;
    size_t count = 1;
    for (const long side : tensor.shape) count *= static_cast<size_t>(side);
    const size_t size = type == "float16" || type == "bfloat16" ? 2 : type == "float64" || type == "int64" ? 8 : 4;
    std::vector<unsigned char> bytes(count * size);
    if (!file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()))) {
      std::fprintf(stderr, "%s: cannot read %s of it; give its path as the argument\n", path, name.c_str());
      std::exit(2);
    }
    for (size_t i = 0; i < count; ++i) tensor.numbers.push_back(number_of(type, &bytes[i * size]));
  }
}
