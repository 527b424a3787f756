// A trail comes back as it was written, and every fault of one is reported.
#include <unistd.h>

#include <fstream>
#include <functional>
#include <random>
#include <tuple>

#include "tests/capture/capture_file.h"

namespace msda::tests {
namespace {

class TrailFile : public CaptureFile {
 protected:
  static TrailRow row_of(TrailKind kind, uint64_t digest) {
    TrailRow row;
    row.kind = kind;
    row.digest = digest;
    row.bytes = 4 * digest;
    row.flags = TrailRow::kIsDigested;
    return row;
  }

  // Two launches of one kernel, the second with a changed word, and a copy.
  static Trail small() {
    Trail trail;
    trail.kernels = {{"_Z3addPf", "abcd", "sm_90", {{"float_atomics", 2}, {"may_communicate", 0}}},
                     {"memset", "", "", {}}};
    trail.configurations = {{{1, 2, 3}, {256, 1, 1}, 0}, {{4294967295, 1, 1}, {32, 2, 1}, 49152}};
    trail.callers = {{"train.py:12 step", "AddBackward0", "aten::add", "rank 0"}, {}, {"\xff is no UTF-8", "", "", ""}};
    trail.parts = {"", "0+16"};
    trail.parameters = {{}, std::vector<std::byte>(20, std::byte{7})};
    TrailRow launch = row_of(TrailKind::kLaunch, 0xfedcba9876543210);
    launch.kernel = 0;
    launch.configuration = 1;
    launch.parameters = 1;
    launch.caller = 0;
    launch.parts = 1;
    launch.stream = 513;
    trail.rows = {launch, row_of(TrailKind::kCopyIn, 5), launch};
    trail.rows[2].flags = TrailRow::kMeasures | TrailRow::kIsUnordered;
    trail.changes = {{2, 8, 0x0102030405060708}, {2, 16, 9}};
    trail.missing = 4;
    return trail;
  }

  void write(const Trail& trail) {
    Writer writer(path, Writer::IfExists::kReplace, "1.2.3");
    writer.write_trail(trail);
    writer.close();
  }

  static void expect_equal(const Trail& a, const Trail& b) {
    ASSERT_EQ(a.rows.size(), b.rows.size());
    for (size_t i = 0; i < a.rows.size(); ++i) {
      const TrailRow &x = a.rows[i], &y = b.rows[i];
      EXPECT_EQ(std::tie(x.digest, x.bytes, x.kernel, x.configuration, x.parameters, x.caller, x.parts, x.stream,
                         x.kind, x.flags),
                std::tie(y.digest, y.bytes, y.kernel, y.configuration, y.parameters, y.caller, y.parts, y.stream,
                         y.kind, y.flags));
    }
    ASSERT_EQ(a.kernels.size(), b.kernels.size());
    for (size_t i = 0; i < a.kernels.size(); ++i) {
      EXPECT_EQ(a.kernels[i].name, b.kernels[i].name);
      EXPECT_EQ(a.kernels[i].digest, b.kernels[i].digest);
      EXPECT_EQ(a.kernels[i].architecture, b.kernels[i].architecture);
      EXPECT_EQ(a.kernels[i].facts, b.kernels[i].facts);
    }
    EXPECT_TRUE(a.configurations == b.configurations);
    EXPECT_TRUE(a.callers == b.callers);
    EXPECT_EQ(a.parts, b.parts);
    EXPECT_EQ(a.parameters, b.parameters);
    ASSERT_EQ(a.changes.size(), b.changes.size());
    for (size_t i = 0; i < a.changes.size(); ++i) {
      EXPECT_EQ(std::tie(a.changes[i].row, a.changes[i].offset, a.changes[i].word),
                std::tie(b.changes[i].row, b.changes[i].offset, b.changes[i].word));
    }
    EXPECT_EQ(a.missing, b.missing);
  }

  // A dataset without data.
  static hid_t create(hid_t file, const char* name, hid_t type, const std::vector<hsize_t>& shape) {
    const hid_t space = H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr);
    const hid_t data = H5Dcreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Sclose(space);
    return data;
  }
  // A dataset of zeros.
  static void fill(hid_t file, const char* name, hid_t type, size_t count, const std::vector<hsize_t>& shape = {}) {
    const hid_t data = create(file, name, type, shape.empty() ? std::vector<hsize_t>{count} : shape);
    const std::vector<std::byte> zeros(8 * count);
    H5Dwrite(data, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, zeros.data());
    H5Dclose(data);
  }

  void expect_damaged(const std::string& why) const {
    EXPECT_THAT([this] { Reader(path).trail(); }, ThrowsMessage<Error>(HasSubstr(why)));
    EXPECT_THAT([this] { IsolatedReader(path).trail(); }, ThrowsMessage<Error>(HasSubstr(why)));
    EXPECT_THAT([this] { IsolatedReader(path).trail(); }, ThrowsMessage<Error>(HasSubstr(path)));
  }
};

TEST_F(TrailFile, ComesBack) {
  Trail trail = small();
  write(trail);
  trail.callers[2].python = "\xef\xbf\xbd is no UTF-8";
  expect_equal(Reader(path).trail().value(), trail);
  expect_equal(IsolatedReader(path).trail().value(), trail);
  EXPECT_EQ(IsolatedReader(path).trail_launches(), 2);
  expect_as_written();
}

TEST_F(TrailFile, NoneAndNoRows) {
  write_small();
  EXPECT_FALSE(IsolatedReader(path).trail());
  EXPECT_FALSE(IsolatedReader(path).trail_launches());
  write({});
  ASSERT_TRUE(IsolatedReader(path).trail());
  EXPECT_TRUE(IsolatedReader(path).trail()->is_empty());
  EXPECT_EQ(IsolatedReader(path).trail_launches(), 0);
  expect_as_written();
}

// More than a chunk of each column.
TEST_F(TrailFile, ManyRowsTakeFewBytes) {
  Trail trail = small();
  constexpr size_t kRows = 300'000;
  std::mt19937_64 random(1);
  const TrailRow launch = trail.rows[0];
  trail.rows.clear();
  for (size_t i = 0; i < kRows; ++i) {
    trail.rows.push_back(launch);
    trail.rows.back().digest = random();
    trail.rows.back().caller = static_cast<uint32_t>(random() % 3);
  }
  trail.callers[2] = {};
  write(trail);
  expect_equal(IsolatedReader(path).trail().value(), trail);
  EXPECT_LT(std::filesystem::file_size(path), kRows * 12);
}

TEST_F(TrailFile, IndicesOutOfTheirLists) {
  const std::pair<const char*, std::function<void(Trail&)>> faults[] = {
      {"row 1 has kernel 2, and there are 2", [](Trail& t) { t.rows[1].kernel = 2; }},
      {"row 0 has configuration 2, and there are 2", [](Trail& t) { t.rows[0].configuration = 2; }},
      {"row 2 has parameters 7, and there are 2", [](Trail& t) { t.rows[2].parameters = 7; }},
      {"row 0 has caller 3, and there are 3", [](Trail& t) { t.rows[0].caller = 3; }},
      {"row 1 has parts 4294967294, and there are 2", [](Trail& t) { t.rows[1].parts = kNoEntry - 1; }},
      {"row 0 is of no known kind, 9", [](Trail& t) { t.rows[0].kind = TrailKind::kCount; }},
      {"changes_row has row 3 of 3", [](Trail& t) { t.changes[1].row = 3; }},
      {"changes_row is not in the rows' order", [](Trail& t) { t.changes[1].row = 0; }},
      {"changes_offset has 20 in row 2, of 20 bytes", [](Trail& t) { t.changes[1].offset = 20; }},
      {"changes_offset has 0 in row 1, of 0 bytes",
       [](Trail& t) {
         t.changes[0] = {1, 0, 0};
       }},
      {"missing is -1", [](Trail& t) { t.missing = -1; }},
  };
  for (const auto& [why, spoil] : faults) {
    Trail trail = small();
    spoil(trail);
    write(trail);
    expect_damaged(why);
    // Each dataset is as it was written: only its meaning shows it.
    EXPECT_THAT([this] { IsolatedReader(path).verify(); }, ThrowsMessage<Error>(HasSubstr(why)));
  }
}

TEST_F(TrailFile, DatasetsThatAreMissingOrOfOtherLengthsOrTypes) {
  const std::tuple<const char*, const char*, std::function<void(hid_t)>> faults[] = {
      {"trail/kernel", "/trail/kernel is missing or a link", [](hid_t) {}},
      {"trail/digest", "digest has 2 elements, kind has 3",
       [](hid_t file) { fill(file, "trail/digest", H5T_STD_U64LE, 2); }},
      {"trail/changes_word", "changes_word has 1 elements, changes_row has 2",
       [](hid_t file) { fill(file, "trail/changes_word", H5T_STD_U64LE, 1); }},
      {"trail/stream", "/trail/stream does not hold unsigned integers of 16 bits",
       [](hid_t file) { fill(file, "trail/stream", H5T_STD_U32LE, 3); }},
      {"trail/caller", "/trail/caller does not hold unsigned integers of 32 bits",
       [](hid_t file) { fill(file, "trail/caller", H5T_STD_I32LE, 3); }},
      {"trail/parameter_ends", "parameter_ends does not divide the 20 bytes of parameter_bytes",
       [](hid_t file) { fill(file, "trail/parameter_ends", H5T_STD_U64LE, 2); }},
      {"trail/names", "names is not the JSON that is expected",
       [](hid_t file) { fill(file, "trail/names", H5T_STD_U8LE, 9); }},
      // Nothing of it is in the file.
      {"trail/kind", "/trail/kind has shape [1099511627776]",
       [](hid_t file) { H5Dclose(create(file, "trail/kind", H5T_STD_U8LE, {hsize_t{1} << 40})); }},
      {"trail/flags", "/trail/flags is not a list",
       [](hid_t file) {
         fill(file, "trail/flags", H5T_STD_U8LE, 3, {3, 1});
       }},
  };
  for (const auto& [name, why, add] : faults) {
    write(small());
    edit([&](hid_t file) {
      H5Ldelete(file, name, H5P_DEFAULT);
      add(file);
    });
    expect_damaged(why);
  }
}

// The bytes of names, parameters and numbers, and those of HDF5's own descriptions.
TEST_F(TrailFile, AnyByteMayBeAnother) {
  write(small());
  std::string whole;
  {
    std::ifstream in(path, std::ios::binary);
    whole.assign(std::istreambuf_iterator<char>(in), {});
  }
  std::mt19937_64 random(5);
  int read = 0, refused = 0;
  for (int i = 0; i < 150; ++i) {
    std::string damaged = whole;
    damaged[random() % damaged.size()] ^= static_cast<char>(1 << random() % 8);
    std::ofstream(path, std::ios::binary | std::ios::trunc) << damaged;
    try {
      const auto trail = IsolatedReader(path).trail();
      ++read;
      if (!trail) continue;  // the group's name is another
      Trail expected = small();
      expected.callers[2].python = "\xef\xbf\xbd is no UTF-8";
      expected.missing = trail->missing;  // an attribute, of which only `verify` knows what was written
      expect_equal(*trail, expected);
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(read, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace msda::tests
