// Every fault of a capture file is reported, and none crashes the reader.
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "recorder/capture/digest.h"
#include "recorder/capture/isolated_reader.h"
#include "recorder/capture/reader.h"
#include "recorder/capture/writer.h"
#include "recorder/machine/free_memory.h"
#include "tests/capture/capture_file.h"

namespace msda::tests {
namespace {

TEST_F(CaptureFile, Missing) { expect_error("no such file"); }

TEST_F(CaptureFile, Folder) {
  path = folder;
  expect_error("not a file");
}

TEST_F(CaptureFile, NotHdf5) {
  for (const std::string text : {"", "x", "PK\3\4 an archive", "\x89HDF\r\n\x1a\n"}) {
    std::ofstream(path, std::ios::trunc) << text;
    expect_error("a.h5: cannot ");
  }
}

TEST_F(CaptureFile, Hdf5ButNoCapture) {
  H5Fclose(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
  expect_error("is HDF5, but not a capture");
}

TEST_F(CaptureFile, TruncatedAnywhere) {
  write_small();
  const auto size = std::filesystem::file_size(path);
  std::mt19937_64 random(3);
  for (int i = 0; i < 50; ++i) {
    write_small();
    std::filesystem::resize_file(path, random() % size);
    EXPECT_THAT([this] { read_all<IsolatedReader>(); }, Throws<Error>());
  }
}

// Zeros, which gzip packs a thousand to one.
TEST_F(CaptureFile, MoreThanTheMemoryThatIsFree) {
  write_small();
  constexpr hsize_t kChunk = 16 << 20;  // numbers of 4 bytes
  const auto free = static_cast<hsize_t>(machine::free_memory().value_or(0));
  ASSERT_GT(free, 0U);
  const hsize_t count = free / 4 * 5 / (4 * kChunk) + 1;
  constexpr char kName[] = "invocations/000000/outputs/grad_value";
  edit([&](hid_t file) {
    const hid_t packed = H5Pcreate(H5P_DATASET_CREATE);
    const hsize_t chunk[] = {1, 1, 1, kChunk}, first[] = {0, 0, 0, 0};
    H5Pset_chunk(packed, 4, chunk);
    H5Pset_deflate(packed, 9);
    replace(file, kName, H5T_IEEE_F32LE, {1, count, 1, kChunk}, packed);
    H5Pclose(packed);
    const hid_t data = H5Dopen2(file, kName, H5P_DEFAULT), place = H5Dget_space(data);
    const hid_t space = H5Screate_simple(4, chunk, nullptr);
    H5Sselect_hyperslab(place, H5S_SELECT_SET, first, nullptr, chunk, nullptr);
    const std::vector<float> zeros(kChunk);
    H5Dwrite(data, H5T_NATIVE_FLOAT, space, place, H5P_DEFAULT, zeros.data());
    H5Dflush(data);
    hsize_t bytes = 0;
    uint32_t filters = 0;
    H5Dget_chunk_storage_size(data, first, &bytes);
    std::vector<std::byte> stored(bytes);
    H5Dread_chunk(data, H5P_DEFAULT, first, &filters, stored.data());
    for (hsize_t i = 1; i < count; ++i) {
      const hsize_t at[] = {0, i, 0, 0};
      H5Dwrite_chunk(data, H5P_DEFAULT, filters, at, bytes, stored.data());
    }
    for (const hid_t of_spaces : {space, place}) H5Sclose(of_spaces);
    H5Dclose(data);
  });
  expect_error("MiB of memory, of which this machine has");
}

TEST_F(CaptureFile, OtherVersions) {
  for (const int64_t version : {int64_t{0}, kFormatVersion + 1, int64_t{-1}}) {
    write_small();
    edit([&](hid_t file) {
      const hid_t attribute = H5Aopen(file, "format_version", H5P_DEFAULT);
      H5Awrite(attribute, H5T_NATIVE_INT64, &version);
      H5Aclose(attribute);
    });
    expect_error("has format version " + std::to_string(version) + ", this program reads version 1");
    expect_error(version > kFormatVersion ? "use a newer msda-replay" : "record it again");
  }
}

TEST_F(CaptureFile, WrongRank) {
  write_small();
  edit([](hid_t file) { replace(file, "/invocations/000000/inputs/value", H5T_IEEE_F32LE, {0, 2, 3}); });
  expect_error("/invocations/000000/inputs/value has rank 3, not 4: [batch, pixel, head, channel]");
}

TEST_F(CaptureFile, WrongTypes) {
  write_small();
  edit([](hid_t file) { replace(file, "/invocations/000000/inputs/value", H5T_STD_I64LE, {0, 2, 3, 4}); });
  expect_error("has type int64, not a floating-point one");
  edit([](hid_t file) { replace(file, "/invocations/000000/inputs/value", H5T_STD_U16LE, {0, 2, 3, 4}); });
  expect_error("has a type that is not float16");
  edit([](hid_t file) { replace(file, "/invocations/000000/inputs/value", H5T_IEEE_F32LE, {0, 2, 3, 4}); });
  edit([](hid_t file) { replace(file, "/invocations/000000/inputs/spatial_shapes", H5T_IEEE_F32LE, {0, 2}); });
  expect_error("has type float32, not int32 or int64");
}

// Shapes that claim more than the file holds: no memory is allocated.
TEST_F(CaptureFile, ClaimsMoreThanItHolds) {
  write_small();
  edit([](hid_t file) {
    const hid_t late = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_alloc_time(late, H5D_ALLOC_TIME_LATE);
    replace(file, "/invocations/000000/inputs/value", H5T_IEEE_F32LE, {1 << 20, 1 << 20, 1, 4}, late);
    H5Pclose(late);
  });
  expect_error("but the file holds 0 bytes of it");
  edit([](hid_t file) {
    const hid_t chunked = H5Pcreate(H5P_DATASET_CREATE);
    const hsize_t chunk[4] = {1, 1, 1, 4};
    H5Pset_chunk(chunked, 4, chunk);
    H5Pset_deflate(chunked, 1);
    replace(file, "/invocations/000000/inputs/value", H5T_IEEE_F32LE, {hsize_t{1} << 40, hsize_t{1} << 20, 1, 4},
            chunked);
    H5Pclose(chunked);
  });
  expect_error("absurd shape");
}

TEST_F(CaptureFile, CompressedDataIsRead) {
  write_small();
  edit([](hid_t file) {
    const hid_t chunked = H5Pcreate(H5P_DATASET_CREATE);
    const hsize_t chunk[4] = {1, 64, 1, 4};
    H5Pset_chunk(chunked, 4, chunk);
    H5Pset_deflate(chunked, 9);
    replace(file, "/invocations/000000/inputs/value", H5T_IEEE_F32LE, {1, 128, 1, 4}, chunked);
    H5Pclose(chunked);
    const std::vector<float> zeros(512, 0);
    const hid_t data = H5Dopen2(file, "/invocations/000000/inputs/value", H5P_DEFAULT);
    H5Dwrite(data, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, zeros.data());
    H5Dclose(data);
  });
  read_all();
}

TEST_F(CaptureFile, ReadsNothingOutsideTheFile) {
  write_small();
  edit([](hid_t file) {
    const hid_t outside = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_external(outside, "/etc/passwd", 0, 96);
    replace(file, "/invocations/000000/inputs/value", H5T_IEEE_F32LE, {1, 6, 1, 4}, outside);
    H5Pclose(outside);
  });
  expect_error("keeps its data outside the file");
  write_small();
  edit([](hid_t file) {
    H5Ldelete(file, "/invocations/000000", H5P_DEFAULT);
    H5Lcreate_external("other.h5", "/", file, "/invocations/000000", H5P_DEFAULT, H5P_DEFAULT);
  });
  EXPECT_TRUE(Reader(path).invocation_ids().empty());  // links are no part of a capture
}

TEST_F(CaptureFile, AttributesOfTheWrongKind) {
  write_small();
  edit([](hid_t file) {
    const hid_t group = H5Oopen(file, "/invocations/000000", H5P_DEFAULT);
    const hid_t space = H5Screate(H5S_SCALAR);
    const double nan = 0;
    const hid_t attribute = H5Acreate2(group, "atol", H5T_IEEE_F64LE, space, H5P_DEFAULT, H5P_DEFAULT);
    H5Awrite(attribute, H5T_NATIVE_DOUBLE, &nan);
    H5Aclose(attribute);
    H5Oclose(group);
    H5Sclose(space);
  });
  expect_error("has only one of the attributes atol and rtol");
  write_small();
  edit([](hid_t file) {
    const hid_t group = H5Oopen(file, "/invocations/000000", H5P_DEFAULT);
    H5Adelete(group, "dialect");
    const hsize_t three = 3;
    const hid_t space = H5Screate_simple(1, &three, nullptr);
    H5Aclose(H5Acreate2(group, "dialect", H5T_IEEE_F64LE, space, H5P_DEFAULT, H5P_DEFAULT));
    H5Sclose(space);
    H5Oclose(group);
  });
  expect_error("attribute dialect is not a text");
}

TEST_F(CaptureFile, StagesOfTheWrongKind) {
  const auto write = [this] {
    Writer writer(path, Writer::IfExists::kReplace, "");
    writer.begin_invocation({});
    writer.begin_stage("sampled_value", MSDA_FLOAT32, {0, 1, 1, 1, 1, 1});
    writer.end_stage("sampled_value");
    StageFacts facts;
    facts.float64.emplace();
    writer.add_stage_facts("sampled_value", facts);
    writer.close();
  };
  write();
  read_all();
  edit([](hid_t file) { replace(file, "/invocations/000000/stages/sampled_value/full", H5T_IEEE_F32LE, {0, 3}); });
  expect_error("/invocations/000000/stages/sampled_value/full has rank 2, not 6");
  write();
  edit([](hid_t file) {
    const hid_t group = H5Oopen(file, "/invocations/000000/stages/sampled_value/float64", H5P_DEFAULT);
    H5Adelete(group, "nan");
    const hid_t space = H5Screate(H5S_SCALAR), text = H5Tcopy(H5T_C_S1);
    H5Aclose(H5Acreate2(group, "nan", text, space, H5P_DEFAULT, H5P_DEFAULT));
    H5Tclose(text);
    H5Sclose(space);
    H5Oclose(group);
  });
  expect_error("attribute nan is not a number");
  write();
  edit([](hid_t file) { replace(file, "/invocations/000000/stages/sampled_value", H5T_IEEE_F32LE, {0}); });
  EXPECT_TRUE(Reader(path).invocation(0).stages.empty());  // a dataset is no stage
}

TEST_F(CaptureFile, UnknownInvocation) {
  write_small();
  const Reader reader(path);
  EXPECT_THAT([&] { reader.invocation(3); },
              ThrowsMessage<Error>(HasSubstr("has no invocation 3; it has 1 of them, from 0 to 0")));
  EXPECT_THAT([&] { reader.invocation(-1); }, Throws<Error>());
}

TEST_F(CaptureFile, DamagedBytesAreFoundByDigest) {
  write_small();
  const TensorInfo info = Reader(path).invocation(0).outputs.at(2);
  edit([&](hid_t file) {
    const hid_t data = H5Dopen2(file, info.path.c_str(), H5P_DEFAULT);
    std::vector<float> values(static_cast<size_t>(info.elements()));
    H5Dread(data, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
    values[5] = std::nextafter(values[5], 1e9f);
    H5Dwrite(data, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
    H5Dclose(data);
  });
  const Verification found = Reader(path).verify();
  ASSERT_EQ(found.differences.size(), 1u);
  EXPECT_EQ(found.differences[0].object, info.path);
  EXPECT_THAT(found.differences[0].why, HasSubstr("is damaged: its digest is"));
}

// Reading any file ends with an answer or an Error: libhdf5's crashes happen in another process.
TEST_F(CaptureFile, RandomDamageEndsInAnError) {
  write_small();
  std::vector<char> original(std::filesystem::file_size(path));
  std::ifstream(path, std::ios::binary).read(original.data(), static_cast<std::streamsize>(original.size()));
  std::mt19937_64 random(4);
  int errors = 0;
  for (int i = 0; i < 90; ++i) {
    std::vector<char> damaged = original;
    for (uint64_t n = 1 + random() % 4; n > 0; --n) damaged[random() % damaged.size()] = static_cast<char>(random());
    std::ofstream(path, std::ios::binary | std::ios::trunc)
        .write(damaged.data(), static_cast<std::streamsize>(damaged.size()));
    try {
      read_all<IsolatedReader>();
    } catch (const Error& e) {
      ++errors;
      EXPECT_THAT(e.what(), HasSubstr(path));
      EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
    }
  }
  EXPECT_GT(errors, 10);
}

}  // namespace
}  // namespace msda::tests
