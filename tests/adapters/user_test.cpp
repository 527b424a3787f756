// User adapters: how they decode launches, what they refuse, and that no file crashes their reader.
#include "recorder/adapters/user.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include <cstdio>
#include <fstream>
#include <limits>
#include <random>

#include "tests/adapters/launches.h"

namespace msda::adapters {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Json = nlohmann::json;

Json adapter_file() {
  return Json::parse(R"({
    "format": "msda-adapter", "version": 1,
    "adapters": [{
      "name": "mine", "kernel": "^_Z4mine",
      "parameters": [
        {"name": "n", "type": "int32"},
        {"name": "wide", "type": "uint64"},
        {"name": "flag", "type": "bool"},
        {"name": "info", "type": "bytes", "size": 24, "fields": [
          {"name": "data", "offset": 0, "type": "pointer"},
          {"name": "rows", "offset": 8, "type": "int64"},
          {"name": "scale", "offset": 16, "type": "float32"}]},
        {"name": "y", "type": "pointer"},
        {"type": "float64"}
      ],
      "conditions": ["n == info.rows * 3", "flag < 2"],
      "tensors": [
        {"name": "x", "role": "input", "pointer": "info.data", "type": "bfloat16", "shape": ["info.rows", 3]},
        {"name": "y", "role": "inout", "pointer": "y", "type": "float64", "shape": ["grid.x * block.y", "n/4"],
         "strides": ["wide", 1]},
        {"name": "mask", "role": "output", "pointer": "y", "type": "uint8", "shape": [8]}
      ]
    }]
  })");
}

struct Info {
  uint64_t data = 0x100;
  int64_t rows = 4;
  float scale = 0.5f;
  uint32_t padding = 0;
};

struct Mine {
  int32_t n = 12;
  uint64_t wide = 40;
  uint8_t flag = 1;
  Info info;
  uint64_t y = 0x200;
  double last = 1;
  Launch launch() const {
    Launch launch = Packer().add(n).add(wide).add(flag).add(info).add(y).add(last).launch("_Z4mineid");
    launch.grid = {5, 6, 7};
    launch.block = {8, 2, 1};
    return launch;
  }
};

std::vector<std::unique_ptr<const Adapter>> parse_adapters(const Json& json) {
  return parse_user_adapters("a.json", json.dump());
}

std::string refusal(const Json& json, const Launch& launch) {
  return reason(parse_adapters(json)[0]->decode(launch, nullptr));
}
std::string refusal(const Mine& mine) { return refusal(adapter_file(), mine.launch()); }

TEST(UserAdapter, Decodes) {
  const auto adapters = parse_adapters(adapter_file());
  ASSERT_EQ(adapters.size(), 1u);
  EXPECT_EQ(adapters[0]->name(), "mine");
  EXPECT_TRUE(adapters[0]->matches("_Z4mineid"));
  EXPECT_FALSE(adapters[0]->matches("a_Z4mineid"));
  Json inner = adapter_file();
  inner["adapters"][0]["kernel"] = "a|4mi|b";
  EXPECT_TRUE(parse_adapters(inner)[0]->matches("_Z4mineid"));
  EXPECT_FALSE(parse_adapters(inner)[0]->matches("_Z4Mineid"));
  const Decoded decoded = adapters[0]->decode(Mine().launch(), nullptr);
  ASSERT_EQ(reason(decoded), "not refused");
  const Call& call = std::get<Call>(decoded);
  EXPECT_EQ(call.dialect, std::nullopt);
  EXPECT_THAT(describe(call.inputs), ElementsAre("x 256 bf16 [4,3]", "y 512 f64 [10,3] strides [40,1]"));
  EXPECT_THAT(describe(call.outputs), ElementsAre("y 512 f64 [10,3] strides [40,1]", "mask 512 u8 [8]"));
  EXPECT_EQ(call.inputs[1].bytes(), (9 * 40 + 2 + 1) * 8);
  EXPECT_EQ(call.facts.texts.at("adapter"), "mine");
  const auto& pointers = call.pointers;
  ASSERT_EQ(pointers.size(), 4u);
  EXPECT_THAT((std::vector{pointers[0].tensor, pointers[1].tensor, pointers[2].tensor, pointers[3].tensor}),
              ElementsAre("inputs/x", "inputs/y", "outputs/y", "outputs/mask"));
  const auto offsets = Mine().launch().parameters;
  EXPECT_EQ(pointers[0].offset, offsets[3].offset);
  for (size_t i = 1; i < 4; ++i) EXPECT_EQ(pointers[i].offset, offsets[4].offset);
  EXPECT_THAT(std::get<Refusal>(adapters[0]->with_block(Mine().launch(), 8)).reason, HasSubstr("is not known"));
}

// A library's variant of a kernel has other parameters, and the same tensors.
TEST(UserAdapter, IsLikeAnotherButForWhatItSays) {
  Json json = adapter_file();
  Json parameters = json["adapters"][0]["parameters"];
  parameters.push_back({{"name", "surplus"}, {"type", "int32"}});
  json["adapters"].push_back({{"name", "yours"},
                              {"like", "mine"},
                              {"kernel", "^_Z5yours"},
                              {"parameters", parameters},
                              {"conditions", {"surplus == 1"}}});
  const auto adapters = parse_adapters(json);
  ASSERT_EQ(adapters.size(), 2u);
  const auto decode = [&](int32_t surplus, int32_t n) {
    const Mine mine;
    Launch launch =
        Packer().add(n).add(mine.wide).add(mine.flag).add(mine.info).add(mine.y).add(mine.last).add(surplus).launch(
            "_Z5yoursid");
    launch.grid = mine.launch().grid;
    launch.block = mine.launch().block;
    return adapters[1]->decode(launch, nullptr);
  };
  const Decoded decoded = decode(1, 16);  // which `mine` refuses
  ASSERT_EQ(reason(decoded), "not refused");
  EXPECT_EQ(std::get<Call>(decoded).facts.texts.at("adapter"), "yours");
  EXPECT_THAT(describe(std::get<Call>(decoded).inputs),
              ElementsAre("x 256 bf16 [4,3]", "y 512 f64 [10,4] strides [40,1]"));
  EXPECT_THAT(reason(decode(2, 12)), HasSubstr("surplus == 1"));
  EXPECT_FALSE(adapters[0]->matches("_Z5yoursid"));
}

// A pointer that no tensor names is still known to be a pointer, whether it has a name or not.
TEST(UserAdapter, PointersToWhatIsNotKnown) {
  Json json = adapter_file();
  json["adapters"][0]["tensors"].erase(0);
  json["adapters"][0]["parameters"][5] = {{"type", "pointer"}};
  const Decoded decoded = parse_adapters(json)[0]->decode(Mine().launch(), nullptr);
  ASSERT_EQ(reason(decoded), "not refused");
  std::map<uint64_t, std::string> unknown;
  for (const auto& [offset, tensor] : std::get<Call>(decoded).pointers) {
    if (tensor.empty()) unknown[offset] = tensor;
  }
  const auto offsets = Mine().launch().parameters;
  EXPECT_THAT(unknown, ElementsAre(testing::Pair(offsets[3].offset, ""), testing::Pair(offsets[5].offset, "")));
}

// One adapter describes a kernel for several types; a tensor may be there or not; numbers become facts.
TEST(UserAdapter, TypesConditionsAndFacts) {
  Json json = adapter_file();
  Json& adapter = json["adapters"][0];
  adapter["kernel"] = "^_Z4mine(index)(element)$";
  adapter["types"] = {{"index", {{"i", "int32"}, {"l", "int64"}}}, {"element", {{"f", "float32"}, {"d", "float64"}}}};
  adapter["parameters"][0]["type"] = "index";
  adapter["tensors"][1]["type"] = "element";
  adapter["tensors"][2]["if"] = "flag == 0";
  adapter["facts"] = Json::parse(R"(["n", "flag", "info.scale", {"name": "reduce", "text": "sum"},
                                     {"name": "dim_size", "value": "max(n, wide) / 2"}])");
  const auto adapters = parse_adapters(json);
  ASSERT_EQ(adapters.size(), 4u);
  const auto matching = [&](const char* kernel) {
    return std::ranges::find_if(adapters, [&](const auto& each) { return each->matches(kernel); });
  };
  ASSERT_NE(matching("_Z4mineid"), adapters.end());
  EXPECT_EQ(matching("_Z4mineis"), adapters.end());
  EXPECT_EQ(matching("_Z4mineidx"), adapters.end());
  const Decoded decoded = (*matching("_Z4mineid"))->decode(Mine().launch(), nullptr);
  ASSERT_EQ(reason(decoded), "not refused");
  const Call& call = std::get<Call>(decoded);
  EXPECT_THAT(describe(call.outputs), ElementsAre("y 512 f64 [10,3] strides [40,1]"));
  EXPECT_EQ(call.facts.integers, (decltype(call.facts.integers){{"n", 12}, {"flag", 1}, {"dim_size", 20}}));
  EXPECT_EQ(call.facts.texts.at("reduce"), "sum");
  EXPECT_EQ(call.facts.reals, (decltype(call.facts.reals){{"info.scale", 0.5}}));
  EXPECT_THAT(std::get<Call>((*matching("_Z4mineif"))->decode(Mine().launch(), nullptr)).outputs[0].type,
              testing::Eq(MSDA_FLOAT32));
  EXPECT_THAT(reason((*matching("_Z4minelf"))->decode(Mine().launch(), nullptr)), HasSubstr("not 8 8 1 24 8 8 bytes"));
  Mine without;
  without.flag = 0;
  EXPECT_EQ(std::get<Call>((*matching("_Z4mineid"))->decode(without.launch(), nullptr)).outputs.size(), 2u);
}

// Calls with equal tensors differ if a number differs, named or not; addresses do not matter.
TEST(UserAdapter, ScalarsTellCallsApart) {
  const auto adapters = parse_adapters(adapter_file());
  const auto scalars = [&](const Mine& mine) {
    return std::get<Call>(adapters[0]->decode(mine.launch(), nullptr)).facts.texts.at("scalars");
  };
  const std::string first = scalars(Mine());
  EXPECT_THAT(first, testing::StartsWith("n=12 wide=40 flag=1 info.rows=4 info.scale=0.5 unnamed="));
  Mine another;
  another.y = 0x300;
  another.info.data = 0x400;
  EXPECT_EQ(scalars(another), first);
  another.info.scale = 0.1f;
  EXPECT_THAT(scalars(another), HasSubstr("info.scale=0.1 "));
  another = {};
  another.last = 2;
  EXPECT_NE(scalars(another), first);
  another = {};
  another.info.padding = 1;  // may be padding, or a field without a name
  EXPECT_NE(scalars(another), first);
}

TEST(UserAdapter, LaunchesThatDoNotFitAreRefused) {
  Mine mine;
  mine.n = 13;
  EXPECT_EQ(refusal(mine), "adapter mine: n == info.rows * 3 does not hold: its sides are 13 and 12");
  mine = {};
  mine.flag = 2;
  EXPECT_THAT(refusal(mine), HasSubstr("flag is 2, not a bool"));
  mine = {};
  mine.wide = uint64_t{1} << 63;
  EXPECT_THAT(refusal(mine), HasSubstr("wide is 9223372036854775808"));
  mine.wide = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(refusal(mine), HasSubstr("y is too large"));
  mine = {};
  mine.info.rows = mine.n = 0;
  EXPECT_THAT(refusal(mine), HasSubstr("x has a size that is not positive: [0,3]"));
  mine = {};
  mine.info.data = 0;
  EXPECT_THAT(refusal(mine), HasSubstr("x is a null pointer"));
  Json json = adapter_file();
  json["adapters"][0]["tensors"][1]["strides"][1] = "0-1";
  EXPECT_THAT(refusal(json, Mine().launch()), HasSubstr("negative stride"));
  json["adapters"][0]["tensors"][1]["strides"][1] = "n/(n-12)";
  EXPECT_THAT(refusal(json, Mine().launch()), HasSubstr("y: n/(n-12) divides by zero"));

  const Launch good = Mine().launch();
  for (size_t i = 0; i < good.parameters.size(); ++i) {
    Launch launch = good;
    launch.parameters[i].size *= 2;
    EXPECT_THAT(refusal(adapter_file(), launch), HasSubstr("not 4 8 1 24 8 8 bytes")) << i;
    launch = good;
    launch.parameters[i].offset = std::numeric_limits<uint64_t>::max() - 3;
    EXPECT_THAT(refusal(adapter_file(), launch), HasSubstr("not 4 8 1 24 8 8 bytes")) << i;
    launch = good;
    launch.parameters.resize(i);
    EXPECT_NE(refusal(adapter_file(), launch), "not refused");
  }
  for (size_t size = 0; size < good.bytes.size(); ++size) {
    Launch launch = good;
    launch.bytes.resize(size);
    EXPECT_NE(refusal(adapter_file(), launch), "not refused") << size;
  }
}

TEST(UserAdapter, AnAdapterOfTheOperator) {
  Json json = Json::parse(R"({"format": "msda-adapter", "version": 1, "adapters": [{
    "name": "ours", "kernel": "msda_backward", "dialect": "msda_triton", "padding_mode": "border", "align_corners": true,
    "parameters": [{"name": "p", "type": "pointer"}], "tensors": []}]})");
  for (const auto& [name, rank] : std::initializer_list<std::pair<const char*, int>>{{"value", 4},
                                                                                     {"spatial_shapes", 2},
                                                                                     {"sampling_locations", 6},
                                                                                     {"attention_weights", 5},
                                                                                     {"grad_output", 4},
                                                                                     {"grad_value", 4}}) {
    json["adapters"][0]["tensors"].push_back({{"name", name},
                                              {"role", std::string(name) == "grad_value" ? "output" : "input"},
                                              {"pointer", "p"},
                                              {"type", rank == 2 ? "int64" : "float32"},
                                              {"shape", std::vector<int>(rank, 2)}});
  }
  const Decoded decoded = parse_adapters(json)[0]->decode(Packer().add(uint64_t{9}).launch("msda_backward"), nullptr);
  const Call& call = std::get<Call>(decoded);
  EXPECT_EQ(call.dialect, MSDA_MSDA_TRITON);
  EXPECT_EQ(call.padding, MSDA_PADDING_BORDER);
  EXPECT_EQ(call.align_corners, true);

  const auto expect_error = [](const Json& bad, const std::string& message) {
    EXPECT_THAT([&] { parse_adapters(bad); },
                ThrowsMessage<BadAdapterFile>(AllOf(HasSubstr("a.json"), HasSubstr(message))));
  };
  Json bad = json;
  bad["adapters"][0].erase("padding_mode");  // the writer will derive it from the outputs, and needs them
  expect_error(bad, "/adapters/0/tensors has no grad_sampling_locations");
  bad = json;
  bad["adapters"][0]["tensors"].erase(0);
  expect_error(bad, "has no value");
  for (const auto& [key, value, message] : std::initializer_list<std::tuple<const char*, Json, const char*>>{
           {"shape", {2, 2}, "value of 2 dimensions, not 4"},
           {"role", "inout", "value in another role than input"},
           {"type", "int64", "not a floating-point one"},
           {"type", "uint8", "not a floating-point one"},
           {"name", "values", "has values, which the operator"}}) {
    bad = json;
    bad["adapters"][0]["tensors"][0][key] = value;
    expect_error(bad, message);
  }
  for (const auto& [key, value, message] : std::initializer_list<std::tuple<const char*, Json, const char*>>{
           {"dialect", "cudnn", "there are deformable_detr, msda_triton, grid_sample"},
           {"padding_mode", "reflection", "there are zeros, border"},
           {"align_corners", 1, "is not true or false"}}) {
    bad = json;
    bad["adapters"][0][key] = value;
    expect_error(bad, std::string("/adapters/0/") + key);
    expect_error(bad, message);
  }
  bad = json;
  bad["adapters"][0].erase("dialect");
  expect_error(bad, "goes with a \"dialect\"");
}

// A change at a JSON pointer, and the error message there or at another pointer.
TEST(UserAdapterFile, ErrorsNameThePlace) {
  struct Case {
    const char *pointer, *value, *where, *message;
  };
  const Case cases[] = {
      {"/format", R"("msda-capture")", "/format", "is not \"msda-adapter\""},
      {"/version", "2", "/version", "is not 1"},
      {"/version", "1.0", "/version", "is not an integer"},
      {"/extra", "1", "the file", "unknown key \"extra\"; there are format, version, adapters"},
      {"/adapters", "{}", "/adapters", "is not a list"},
      {"/adapters", "[]", "/adapters", "has 0 elements"},
      {"/adapters/0", "[]", "/adapters/0", "is not an object"},
      {"/adapters/0/name", R"("")", "/adapters/0/name", "1 to 100 characters"},
      {"/adapters/0/name", R"("a\nb")", "/adapters/0/name", "is not a line"},
      {"/adapters/0/types", R"({"element": {"f": "float32"}})", "/adapters/0/types",
       "the kernel's pattern has no (element)"},
      {"/adapters/0/types", R"(["f"])", "/adapters/0/types", "is not an object"},
      {"/adapters/0/like", R"("yours")", "/adapters/0/like", "no adapter before it has that name"},
      {"/adapters/0/like", R"("mine")", "/adapters/0/like", "no adapter before it has that name"},
      {"/adapters/0/like", "1", "/adapters/0/like", "is not a text"},
      {"/adapters/0/facts", R"(["info.data"])", "/adapters/0/facts/0", "no number among the parameters"},
      {"/adapters/0/facts", R"([{"name": "operator", "text": "x"}])", "/adapters/0/facts/0/name",
       "which the recorder states"},
      {"/adapters/0/facts", R"([{"name": "a"}])", "/adapters/0/facts/0/name", "not one of \"text\" and \"value\""},
      {"/adapters/0/facts", R"([{"name": "a", "text": "b\nc"}])", "/adapters/0/facts/0/text", "is not a line"},
      {"/adapters/0/facts", R"([{"name": "a", "value": "b"}])", "/adapters/0/facts/0/value", "is no expression"},
      {"/adapters/0/facts", R"([{"name": "a", "value": 1, "type": 2}])", "/adapters/0/facts/0", "unknown key \"type\""},
      {"/adapters/0/tensors/0/if", R"("flag")", "/adapters/0/tensors/0/if", "has no comparison"},
      {"/adapters/0/kernel", R"("(")", "/adapters/0/kernel", "not a valid regular expression"},
      {"/adapters/0/kernel", R"("a)(b")", "/adapters/0/kernel", "not a valid regular expression"},
      {"/adapters/0/kernel", R"("(a)\\1")", "/adapters/0/kernel", "not a valid regular expression"},
      {"/adapters/0/kernel", R"("a{3}")", "/adapters/0/kernel", "write the repeats out"},
      {"/adapters/0/kernel", "7", "/adapters/0/kernel", "is not a text"},
      {"/adapters/0/parameters", "[]", "/adapters/0/parameters", "has 0 elements"},
      {"/adapters/0/parameters/0/type", R"("int")", "/adapters/0/parameters/0/type", "there are bytes, int32"},
      {"/adapters/0/parameters/0/name", R"("grid")", "/adapters/0/parameters/0/name", "another name"},
      {"/adapters/0/parameters/0/name", R"("1n")", "/adapters/0/parameters/0/name", "a letter first"},
      {"/adapters/0/parameters/0/name", R"("wide")", "/adapters/0/parameters/1/name", "another parameter has: wide"},
      {"/adapters/0/parameters/0/size", "4", "/adapters/0/parameters/0/size", "is for parameters of type bytes"},
      {"/adapters/0/parameters/3/size", "-24", "/adapters/0/parameters/3/size", "is not an integer from 1"},
      {"/adapters/0/parameters/3/size", "1e30", "/adapters/0/parameters/3/size", "is not an integer from 1"},
      {"/adapters/0/parameters/3/size", "18446744073709551615", "/adapters/0/parameters/3/size", "is not an integer"},
      {"/adapters/0/parameters/3/size", "19", "/adapters/0/parameters/3/fields/2",
       "reaches beyond the 19 bytes of info"},
      {"/adapters/0/parameters/3/fields/0/offset", "17", "/adapters/0/parameters/3/fields/0", "reaches beyond"},
      {"/adapters/0/parameters/3/fields/0/type", R"("bytes")", "/adapters/0/parameters/3/fields/0/type",
       "there are int32"},
      {"/adapters/0/parameters/3/fields/1/name", R"("data")", "/adapters/0/parameters/3/fields/1/name", "info.data"},
      {"/adapters/0/conditions/0", R"("n")", "/adapters/0/conditions/0", "has no comparison"},
      {"/adapters/0/conditions/0", R"("m == 1")", "/adapters/0/conditions/0", "there is no \"m\"; there are n, wide"},
      {"/adapters/0/conditions/0", R"("y == 0")", "/adapters/0/conditions/0", "y is no integer"},
      {"/adapters/0/tensors/0/role", R"("in")", "/adapters/0/tensors/0/role", "there are input, output, inout"},
      {"/adapters/0/tensors/0/pointer", R"("n")", "/adapters/0/tensors/0/pointer", "of type pointer"},
      {"/adapters/0/tensors/0/type", R"("float")", "/adapters/0/tensors/0/type", "there are float16, bfloat16"},
      {"/adapters/0/tensors/0/name", R"("../x")", "/adapters/0/tensors/0/name", "is not a name"},
      {"/adapters/0/tensors/0/name", R"("y")", "/adapters/0/tensors/1/name", "another tensor has"},
      {"/adapters/0/tensors/0/shape", "[]", "/adapters/0/tensors/0/shape", "has 0 elements"},
      {"/adapters/0/tensors/0/shape/0", "-1", "/adapters/0/tensors/0/shape/0", "neither an expression nor a number"},
      {"/adapters/0/tensors/0/shape/0", R"("info.scale")", "/adapters/0/tensors/0/shape/0", "info.scale is no integer"},
      {"/adapters/0/tensors/0/shape/0", R"("n ==")", "/adapters/0/tensors/0/shape/0", "where an operator or the end"},
      {"/adapters/0/tensors/1/strides", "[1]", "/adapters/0/tensors/1/strides", "has 1 elements, not 2 to 2"},
      {"/adapters/0/padding_mode", R"("zeros")", "/adapters/0/padding_mode", "goes with a \"dialect\""},
  };
  for (const Case& c : cases) {
    Json json = adapter_file();
    json[Json::json_pointer(c.pointer)] = Json::parse(c.value);
    EXPECT_THAT([&] { parse_adapters(json); },
                ThrowsMessage<BadAdapterFile>(AllOf(HasSubstr(std::string("a.json: ") + c.where + " "),
                                                    HasSubstr(c.message), HasSubstr("docs/user-adapters.md"))))
        << c.pointer << " " << c.value;
  }
  // Everything that is required.
  for (const char* key : {"/format", "/version", "/adapters", "/adapters/0/name", "/adapters/0/kernel",
                          "/adapters/0/parameters", "/adapters/0/tensors", "/adapters/0/tensors/0/shape",
                          "/adapters/0/tensors/0/pointer", "/adapters/0/parameters/3/size"}) {
    Json json = adapter_file();
    const Json::json_pointer pointer(key);
    json[pointer.parent_pointer()].erase(pointer.back());
    EXPECT_THAT([&] { parse_adapters(json); },
                ThrowsMessage<BadAdapterFile>(HasSubstr("has no \"" + pointer.back() + "\"")));
  }
  Json json = adapter_file();
  json["adapters"][0]["tensors"].erase(2);
  json["adapters"][0]["tensors"][1]["role"] = "input";
  EXPECT_THAT([&] { parse_adapters(json); },
              ThrowsMessage<BadAdapterFile>(HasSubstr("no tensor of role output or inout")));
  EXPECT_THAT([] { parse_user_adapters("a.json", R"({"format": "msda-adapter", "format": "msda-adapter"})"); },
              ThrowsMessage<BadAdapterFile>(HasSubstr("two values for \"format\"")));
  EXPECT_THAT([] { parse_user_adapters("a.json", "{\n  \"format\": nope"); },
              ThrowsMessage<BadAdapterFile>(AllOf(HasSubstr("is not JSON"), HasSubstr("line 2"))));
}

TEST(UserAdapterFile, OfTheDisk) {
  const std::string path = testing::TempDir() + "msda-adapter.json";
  std::ofstream(path) << adapter_file().dump();
  EXPECT_EQ(read_user_adapters(path).size(), 1u);
  std::ofstream(path, std::ios::app) << std::string(1 << 20, ' ');
  EXPECT_THAT([&] { read_user_adapters(path); }, ThrowsMessage<BadAdapterFile>(HasSubstr("larger than a megabyte")));
  std::remove(path.c_str());
  EXPECT_THAT([&] { read_user_adapters(path); }, ThrowsMessage<BadAdapterFile>(HasSubstr("No such file")));
  EXPECT_THAT([&] { read_user_adapters(testing::TempDir()); },
              ThrowsMessage<BadAdapterFile>(HasSubstr("is not a file")));
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT([&] { read_user_adapters(path); }, ThrowsMessage<BadAdapterFile>(HasSubstr("is not a file")));
  std::remove(path.c_str());
}

// Any damage gives adapters that decode to something, or BadAdapterFile.
TEST(UserAdapterFile, DamagedOnes) {
  std::mt19937 random(3);
  const std::string good = adapter_file().dump();
  const Launch launch = Mine().launch();
  int accepted = 0;
  for (int i = 0; i < 5000; ++i) {
    std::string text = good;
    for (auto changes = 1 + random() % 3; changes > 0; --changes) {
      const size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, random() % 8);
          break;
        case 2:
          text.insert(at, text.substr(random() % text.size(), random() % 16));
          break;
        default:
          text[at] = "0123456789-{}[]\",:*/%"[random() % 21];
      }
    }
    try {
      for (const auto& adapter : parse_user_adapters("a.json", text)) {
        adapter->matches(launch.kernel);
        adapter->decode(launch, nullptr);
        ++accepted;
      }
    } catch (const BadAdapterFile&) {
    }
  }
  EXPECT_GT(accepted, 100);  // tests our checks, not only the JSON parser
  const std::string deep(100000, '[');
  EXPECT_THROW(parse_user_adapters("a.json", deep), BadAdapterFile);
  EXPECT_THROW(parse_user_adapters("a.json", deep + std::string(100000, ']')), BadAdapterFile);
}

// Names of kernels are long, and are matched on the program's own stack.
TEST(UserAdapter, LongNames) {
  Json json = adapter_file();
  json["adapters"][0]["kernel"] = "(a|b)*c.*mine(.*)*$";
  const auto adapters = parse_adapters(json);
  EXPECT_TRUE(adapters[0]->matches(std::string(50000, 'a') + "c" + std::string(50000, 'x') + "mine"));
  EXPECT_FALSE(adapters[0]->matches(std::string(50000, 'a')));
}

}  // namespace
}  // namespace msda::adapters
