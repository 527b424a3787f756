// A capture file in its own folder, and functions that change and read it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "recorder/capture/isolated_reader.h"
#include "recorder/capture/reader.h"
#include "recorder/capture/writer.h"
#include "tests/support/problem.h"

namespace msda::tests {

using namespace capture;  // NOLINT
using ::testing::HasSubstr;
using ::testing::Throws;
using ::testing::ThrowsMessage;

class CaptureFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "msda-capture-XXXXXX";
    folder = mkdtemp(name.data());
    path = folder + "/a.h5";
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  static std::span<const std::byte> bytes_of(const std::vector<float>& values) {
    return std::as_bytes(std::span(values));
  }

  // One invocation of a small problem, complete and right.
  void write_small() {
    const Problem problem =
        make_problem({1, 1, 4, 3, 2, {{2, 3}}}, {MSDA_MSDA_TRITON, MSDA_PADDING_BORDER, true}, MSDA_FLOAT32, 1);
    const Gradients gradients = run_backward(problem);
    Writer writer(path, Writer::IfExists::kReplace, "1.2.3");
    CallFacts facts;
    facts.kernel = "kernel";
    facts.dialect = "msda_triton";
    facts.padding_mode = "border";
    facts.align_corners = true;
    writer.begin_invocation(facts);
    const auto add = [](const char* name, const OwnedTensor& t) {
      return TensorView{name, t.view.dtype == MSDA_INT64 ? ElementType::kInt64 : ElementType::kFloat32, t.view.shape,
                        t.bytes()};
    };
    writer.add_input(add("value", problem.value));
    writer.add_input(add("spatial_shapes", problem.spatial_shapes));
    writer.add_input(add("sampling_locations", problem.sampling_locations));
    writer.add_input(add("attention_weights", problem.attention_weights));
    writer.add_input(add("grad_output", problem.grad_output));
    for (const auto gradient : analysis::kMsdaGradients)
      writer.add_output(add(name_of(gradient), gradients.of(gradient)));
    writer.close();
  }

  // Changes the file with plain HDF5.
  template <class Change>
  void edit(Change&& change) {
    const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    ASSERT_GE(file, 0);
    change(file);
    H5Fclose(file);
  }
  // Replaces a dataset by one of this shape.
  static void replace(hid_t file, const char* name, hid_t type, const std::vector<hsize_t>& shape,
                      hid_t properties = H5P_DEFAULT) {
    H5Ldelete(file, name, H5P_DEFAULT);
    const hid_t space = H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr);
    const hid_t data = H5Dcreate2(file, name, type, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    H5Dclose(data);
    H5Sclose(space);
  }
  template <class AnyReader = Reader>
  void read_all() const {
    const AnyReader reader(path);
    for (const int64_t id : reader.invocation_ids()) {
      const Invocation invocation = reader.invocation(id);
      for (const auto* group : {&invocation.inputs, &invocation.outputs}) {
        for (const TensorInfo& info : *group) reader.read(info);
      }
    }
  }
  void expect_as_written() const {
    const Verification found = IsolatedReader(path).verify();
    EXPECT_TRUE(found.has_list);
    for (const Difference& difference : found.differences) ADD_FAILURE() << difference.object << ' ' << difference.why;
  }
  void expect_error(const std::string& message) const {
    EXPECT_THAT([this] { read_all(); }, ThrowsMessage<Error>(HasSubstr(message)));
    EXPECT_THAT([this] { read_all(); }, ThrowsMessage<Error>(HasSubstr(path)));
  }

  std::string folder, path;
};

}  // namespace msda::tests
