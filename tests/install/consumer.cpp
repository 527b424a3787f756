// The C++ libraries from an installed package: a capture written, read back and compared.
#include <analysis/numbers/compare.h>
#include <recorder/capture/reader.h>
#include <recorder/capture/writer.h>

#include <cstdio>
#include <vector>

int main(int, char** argv) {
  using namespace msda;
  const std::vector<float> value{1, 2, 3, 4};
  {
    capture::Writer writer(argv[1], capture::Writer::IfExists::kReplace, "consumer");
    writer.begin_invocation({});
    writer.add_input({{"value", MSDA_FLOAT32, {1, 4, 1, 1}}, std::as_bytes(std::span(value))});
    writer.close();
  }
  const capture::Reader reader(argv[1]);
  const capture::Tensor read = reader.read(reader.invocation(0).inputs.at(0));
  const analysis::Tensor a{value.data(), MSDA_FLOAT32, {4}}, b{read.data.get(), MSDA_FLOAT32, {4}};
  const auto comparison = analysis::compare(a, b, {0, 0}, analysis::NonFinite::kAsTorch, 0, 1);
  std::printf("%lld of %lld differ\n", static_cast<long long>(comparison.mismatched),
              static_cast<long long>(comparison.total));
  return comparison.mismatched == 0 && comparison.total == 4 ? 0 : 1;
}
