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
#include "tests/support/in_a_folder.h"

namespace msda::tests {

using namespace capture;  // NOLINT
using ::testing::HasSubstr;
using ::testing::Throws;
using ::testing::ThrowsMessage;

class CaptureFile : public InAFolder {
 protected:
  static std::span<const std::byte> bytes_of(const std::vector<float>& values) {
    return std::as_bytes(std::span(values));
  }

  // One invocation of a small problem, complete. Any numbers will do: a reader checks none.
  void write_small() {
    Writer writer(path, Writer::IfExists::kReplace, "1.2.3");
    CallFacts facts;
    facts.kernel = "kernel";
    facts.dialect = "msda_triton";
    facts.padding_mode = "border";
    facts.align_corners = true;
    writer.begin_invocation(facts);
    const std::vector<float> numbers{0.5, 1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                     12,  13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23};
    const std::vector<int64_t> height_and_width{2, 3};
    const auto of_floats = [&](const char* name, const std::vector<int64_t>& shape) {
      size_t count = 1;
      for (const int64_t size : shape) count *= static_cast<size_t>(size);
      return TensorView{{name, MSDA_FLOAT32, shape}, std::as_bytes(std::span(numbers).first(count))};
    };
    const std::vector<int64_t> values{1, 6, 1, 4}, locations{1, 3, 1, 1, 2, 2}, weights{1, 3, 1, 1, 2};
    writer.add_input(of_floats("value", values));
    writer.add_input({{"spatial_shapes", MSDA_INT64, {1, 2}}, std::as_bytes(std::span(height_and_width))});
    writer.add_input(of_floats("sampling_locations", locations));
    writer.add_input(of_floats("attention_weights", weights));
    writer.add_input(of_floats("grad_output", {1, 3, 1, 4}));
    writer.add_output(of_floats("grad_value", values));
    writer.add_output(of_floats("grad_sampling_locations", locations));
    writer.add_output(of_floats("grad_attention_weights", weights));
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

  const std::string folder = folder_.string();
  std::string path = folder + "/a.h5";
};

}  // namespace msda::tests
