// Damaged spools, with valid checksums, so that the damage passes them, and with invalid ones: any spool gives a
// capture or an error of one line.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>

#include "recorder/spool/check.h"
#include "recorder/tensors/tensor.h"
#include "recorder/writer/builder.h"
#include "spool_material.h"
#include "tests/support/in_a_folder.h"

namespace msda::tests {
namespace {

using namespace msda::spool;
using record::Builder;

class DamagedSpool : public InAFolder {
 protected:
  void SetUp() override {
    settings_.spool = folder_ / "a.spool";
    settings_.output = folder_ / "a.h5";
    settings_.force = true;
    settings_.release = false;
  }

  // The invocations, or -1 and the error.
  int64_t recover() {
    error_.clear();
    try {
      Builder builder(settings_);
      builder.finish();
      return builder.invocations();
    } catch (const spool::Error& e) {
      error_ = e.what();
      EXPECT_EQ(error_.find(settings_.spool), 0) << error_;
    } catch (const capture::Error& e) {
      error_ = e.what();
    }
    EXPECT_FALSE(error_.empty());
    for (const char c : error_) EXPECT_TRUE(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) << error_;
    return -1;
  }
  int64_t recover(const std::vector<RawFrame>& frames) {
    write_spool(settings_.spool, frames);
    return recover();
  }

  // The same frames, the first message of the type changed.
  template <class Message, class Change>
  std::vector<RawFrame> changed(Change&& change, std::vector<RawFrame> frames = frames_of_everything()) {
    for (RawFrame& frame : frames) {
      if (frame.kind != static_cast<uint32_t>(Message::kKind)) continue;
      auto message = decode<Message>(frame.message);
      change(message);
      frame.message = encode(message);
      break;
    }
    return frames;
  }

  Builder::Settings settings_;
  std::string error_;
};

TEST_F(DamagedSpool, IsWholeToBeginWith) {
  EXPECT_EQ(recover(frames_of_everything()), 4);
  settings_.keep_last = 2;  // at the end, as the target was killed before it dropped the others
  EXPECT_EQ(recover(frames_of_everything()), 2);
}

TEST_F(DamagedSpool, FieldsThatCannotBeAreErrors) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const auto refuse = [&](const std::vector<RawFrame>& frames, const char* what) {
    EXPECT_EQ(recover(frames), -1) << what;
    EXPECT_NE(error_.find(settings_.spool), error_.npos) << what << ": " << error_;
  };
  const auto tensor = [&](auto&& change, const char* what) { refuse(changed<Tensor>(change), what); };
  for (const char* name : {"", ".", "..", "a/b", "/a", "a\nb", "a\x1b[31m", "\x7f"}) {
    tensor([&](Tensor& t) { t.description.name = name; }, name);
    refuse(changed<Kernel>([&](Kernel& k) { k.digest = name; }), name);
  }
  tensor([](Tensor& t) { t.description.name = std::string(300, 'a'); }, "long name");
  tensor([](Tensor& t) { t.description.name = std::string("a\0b", 3); }, "NUL");
  tensor([](Tensor& t) { t.description.type = msda_dtype{9}; }, "type");
  tensor([](Tensor& t) { t.section = "results"; }, "section");
  tensor([](Tensor& t) { t.description.shape.assign(40, 1); }, "rank");
  tensor([](Tensor& t) { t.description.shape[0] = -1; }, "negative size");
  tensor([](Tensor& t) { t.description.shape = {kMost, kMost}; }, "shape");
  tensor([](Tensor& t) { t.description.shape = {kMost, kMost, 0}; }, "empty shape");
  tensor([](Tensor& t) { t.description.strides = {1}; }, "strides of another rank");
  tensor([](Tensor& t) { t.description.strides.assign(t.description.shape.size(), -1); }, "negative strides");
  tensor([](Tensor& t) { t.description.shape[1] += 1; }, "shape that its bytes do not fill");
  tensor([](Tensor& t) { t.block = 1024; }, "block");
  tensor([](Tensor& t) { t.block = -2; }, "negative block");
  tensor([](Tensor& t) { t.zeros = true; }, "zeros with bytes");
  tensor([](Tensor& t) { t.invocation = ~uint64_t{0}; }, "invocation of a tensor");
  refuse(changed<Begin>([](Begin& b) { b.invocation = ~uint64_t{0}; }), "invocation");
  refuse(changed<Begin>([](Begin& b) { b.grid = {1, 2}; }), "grid");
  refuse(changed<Begin>([](Begin& b) { b.block = {1, -2, 1}; }), "block");
  refuse(changed<Begin>([](Begin& b) { b.texts["kernel"] = std::string("a\0b", 3); }), "text");
  refuse(changed<Begin>([](Begin& b) { b.texts[""] = "x"; }), "key");
  refuse(changed<Begin>([](Begin& b) {
           for (int i = 0; i < 5000; ++i) b.integers[std::to_string(i)] = i;
         }),
         "facts");
  refuse(changed<Parameters>([](Parameters& p) { p.sizes = {8}; }), "sizes");
  refuse(changed<Parameters>([](Parameters& p) { p.offsets[1] = kMost; }), "offset");
  refuse(changed<Parameters>([](Parameters& p) { p.sizes[1] = 9; }), "parameters beyond the bytes");
  refuse(changed<Count>([](Count& c) { c.duplicates = -1; }), "count");
  auto twice = frames_of_everything();
  twice.insert(twice.begin() + 5, twice[4]);
  ASSERT_EQ(twice[4].kind, static_cast<uint32_t>(Kind::kBegin));
  refuse(twice, "an invocation that begins twice");
  auto tensors = frames_of_everything();
  tensors.insert(tensors.begin() + 6, tensors[5]);
  ASSERT_EQ(tensors[5].kind, static_cast<uint32_t>(Kind::kTensor));
  refuse(tensors, "a tensor twice");
  auto unknown = frames_of_everything();
  unknown[3].kind = 77;
  refuse(unknown, "kind");
  auto longer = frames_of_everything();
  longer[1].message.push_back({});
  refuse(longer, "a message that is too long");
}

TEST_F(DamagedSpool, TruthIsTrueOrFalse) {
  auto frames = frames_of_everything();
  for (RawFrame& frame : frames) {
    if (frame.kind == static_cast<uint32_t>(Kind::kTensor)) frame.message.back() = std::byte{255};
  }
  EXPECT_EQ(recover(frames), -1);
}

TEST_F(DamagedSpool, SizesClaimedTakeNoMemory) {
  // A tensor of a terabyte that is zero all over, or one element all over.
  const auto huge = [](bool zeros) {
    std::vector<RawFrame> frames;
    Begin begin;
    begin.texts["kernel"] = "k";
    frames.push_back({static_cast<uint32_t>(Kind::kBegin), encode(begin), {}});
    Tensor tensor;
    tensor.section = "inputs";
    tensor.description = {
        "value", kernels::kUInt8, {int64_t{1} << 40}, zeros ? std::vector<int64_t>{} : std::vector<int64_t>{0}};
    tensor.zeros = zeros;
    frames.push_back({static_cast<uint32_t>(Kind::kTensor), encode(tensor), std::vector<std::byte>(zeros ? 0 : 1)});
    frames.push_back({static_cast<uint32_t>(Kind::kEnd), encode(End{}), {}});
    return frames;
  };
  for (const bool zeros : {true, false}) EXPECT_EQ(recover(huge(zeros)), -1) << zeros;
}

TEST(DamagedMessage, CountsClaimedTakeNoMemory) {
  // Eight bytes of count, four of the elements' version, and a megabyte: of texts, of which none takes less than eight.
  std::vector<std::byte> message(1 << 20);
  const uint64_t count = message.size() - 12;
  std::memcpy(message.data(), &count, sizeof count);
  EXPECT_THROW(decode<spool::Run>(message), spool::Error);
}

uint64_t interesting(std::mt19937_64& random) {
  static constexpr uint64_t kNumbers[] = {0,          1,          2,     7,         8,          31,
                                          33,         255,        1023,  1024,      1ULL << 31, 1ULL << 40,
                                          1ULL << 62, 1ULL << 63, ~0ULL, ~0ULL - 1, ~0ULL >> 1};
  return random() % 4 == 0 ? random() : kNumbers[random() % std::size(kNumbers)];
}

void damage_bytes(std::vector<std::byte>& bytes, std::mt19937_64& random) {
  if (bytes.empty()) return;
  const size_t at = random() % bytes.size();
  const uint64_t number = interesting(random);
  switch (random() % 5) {
    case 0:
      bytes[at] = static_cast<std::byte>(random());
      return;
    case 1:
      std::memcpy(bytes.data() + at, &number, std::min(sizeof number, bytes.size() - at));
      return;
    case 2:
      bytes.resize(at);
      return;
    case 3:
      bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), 1 + random() % 16,
                   static_cast<std::byte>(random()));
      return;
    default:
      bytes[at] ^= static_cast<std::byte>(1u << random() % 8);
  }
}

// Changes a field to something else of its type.
void damage_tensor(RawFrame& frame, std::mt19937_64& random) {
  auto tensor = decode<Tensor>(frame.message);
  auto& [name, type, shape, strides] = tensor.description;
  const auto number = static_cast<int64_t>(interesting(random));
  switch (random() % 9) {
    case 0:
      shape.resize(random() % 40, random() % 2 == 0 ? 1 : number);
      break;
    case 1:
      if (!shape.empty()) shape[random() % shape.size()] = number;
      break;
    case 2:
      strides.assign(shape.size(), random() % 2 == 0 ? 0 : number);
      break;
    case 3:
      type = static_cast<msda_dtype>(random() % 8);  // the last is none
      break;
    case 4:
      name = random() % 2 == 0 ? "value" : "grad_sampling_locations";
      break;
    case 5:
      tensor.block = number;
      break;
    case 6:
      tensor.zeros = !tensor.zeros;
      if (random() % 2 == 0) frame.payload.clear();
      break;
    case 7:
      tensor.section = random() % 2 == 0 ? "inputs" : "outputs";
      break;
    default:
      shape.assign(1 + random() % 9, 1);
      strides.assign(random() % 2 == 0 ? 0 : shape.size(), 0);
  }
  if (random() % 2 == 0) {  // with as many bytes as it now claims
    const auto extent = tensors::extent_of(shape, strides, 4);
    if (extent && extent->end >= 0 && extent->end < (1 << 20)) frame.payload.resize(static_cast<size_t>(extent->end));
  }
  frame.message = encode(tensor);
}

void damage_begin(RawFrame& frame, std::mt19937_64& random) {
  auto begin = decode<Begin>(frame.message);
  static constexpr const char* kWords[] = {"",  "zeros", "border", "deformable_detr", "msda_triton", "grid_sample",
                                           "no"};
  static constexpr const char* kKeys[] = {"dialect", "padding_mode", "kernel", "kernel_digest", "label", "time"};
  begin.texts[kKeys[random() % std::size(kKeys)]] = kWords[random() % std::size(kWords)];
  begin.integers[random() % 2 == 0 ? "unconfirmed" : "align_corners"] = static_cast<int64_t>(interesting(random));
  if (random() % 3 == 0) begin.invocation = random() % 5;
  if (random() % 3 == 0) begin.attempt = static_cast<uint32_t>(random() % 3);
  if (random() % 4 == 0) begin.grid.assign(random() % 5, static_cast<int64_t>(interesting(random)));
  frame.message = encode(begin);
}

void damage(std::vector<RawFrame>& frames, std::mt19937_64& random) {
  const size_t at = random() % frames.size();
  RawFrame& frame = frames[at];
  switch (random() % 10) {
    case 0:
      frame.kind = static_cast<uint32_t>(random() % 12);
      return;
    case 1:
      frames.erase(frames.begin() + static_cast<std::ptrdiff_t>(at));
      return;
    case 2: {
      const RawFrame copy = frame;
      frames.insert(frames.begin() + static_cast<std::ptrdiff_t>(random() % frames.size()), copy);
      return;
    }
    case 3:
      std::swap(frame, frames[random() % frames.size()]);
      return;
    case 4:
      return damage_bytes(frame.payload, random);
    case 5:
    case 6:
      return damage_bytes(frame.message, random);
    default:
      try {
        if (frame.kind == static_cast<uint32_t>(Kind::kTensor)) return damage_tensor(frame, random);
        if (frame.kind == static_cast<uint32_t>(Kind::kBegin)) return damage_begin(frame, random);
      } catch (const spool::Error&) {  // it is damaged already
      }
      damage_bytes(frame.message, random);
  }
}

// Behind no checksum.
void damage_file(const std::string& path, std::mt19937_64& random) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> text((std::istreambuf_iterator<char>(file)), {});
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  for (uint64_t i = 0; i < 1 + random() % 4; ++i) damage_bytes(bytes, random);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

// MSDA_DAMAGED_SPOOLS: how many.
TEST_F(DamagedSpool, AnyDamageIsACaptureOrAnError) {
  const char* asked = std::getenv("MSDA_DAMAGED_SPOOLS");
  const int count = asked != nullptr ? std::atoi(asked) : 300;
  const auto whole = frames_of_everything();
  std::mt19937_64 random(2026);
  int recovered = 0, refused = 0;
  for (int i = 0; i < count && !HasFailure(); ++i) {
    SCOPED_TRACE(i);
    auto frames = whole;
    const bool raw = i % 5 == 0;
    for (uint64_t n = 0; !raw && n < 1 + random() % 3; ++n) {
      if (!frames.empty()) damage(frames, random);
    }
    write_spool(settings_.spool, frames);
    if (raw) damage_file(settings_.spool, random);
    settings_.keep_last = i % 3 == 0 ? static_cast<int64_t>(1 + random() % 3) : 0;
    settings_.stages = i % 4 == 0 ? record::Stages::kSummary : record::Stages::kNone;
    (recover() < 0 ? refused : recovered) += 1;
  }
  // The damage is neither so slight nor so heavy that nothing is tried.
  EXPECT_GT(recovered, count / 20);
  EXPECT_GT(refused, count / 20);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  constexpr int64_t kKibibytes = 1 << 20;
  EXPECT_LT(usage.ru_maxrss, kKibibytes);
}

}  // namespace
}  // namespace msda::tests
