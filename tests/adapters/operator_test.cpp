// The key "operator" of adapter files: how sums are read, what is refused, and that no file crashes its reader.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <random>

#include "recorder/adapters/user.h"
#include "recorder/adapters/user_operator.h"
#include "recorder/adapters/user_spec.h"
#include "tests/adapters/launches.h"

namespace msda::adapters {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Json = nlohmann::json;

Json operator_file() {
  return Json::parse(R"({
    "format": "msda-adapter", "version": 1,
    "adapters": [{
      "name": "mine", "kernel": "mine",
      "parameters": [
        {"name": "n", "type": "int32"}, {"name": "alpha", "type": "float32"},
        {"name": "x", "type": "pointer"}, {"name": "row", "type": "pointer"}, {"name": "mask", "type": "pointer"},
        {"name": "y", "type": "pointer"}],
      "tensors": [
        {"name": "x", "role": "input", "pointer": "x", "type": "float32", "shape": ["n", 4]},
        {"name": "row", "role": "input", "pointer": "row", "type": "int64", "shape": ["n"]},
        {"name": "mask", "role": "input", "pointer": "mask", "type": "uint8", "shape": ["n"]},
        {"name": "y", "role": "inout", "pointer": "y", "type": "float32", "shape": ["n", 4]}],
      "operator": {"name": "my_sum", "sizes": {"k": 3}, "outputs": [{
        "tensor": "y", "index": ["i", "c"], "over": ["r", "k"], "channels": ["c"],
        "coordinates": [{"name": "p", "location": "x[i, 0]", "size": "n", "value": "location * size - 0.5"}],
        "where": ["row[r] == i", "p.cell + k < n"],
        "start": "y[i, c]",
        "addends": "x[r, c] * x[row[r], c] * alpha * (1 - p.fraction) - 2.5e-1 * x[r, c] / 3 + -x[r, k]"}]}
    }]
  })");
}

OperatorSpec parse_operator(const Json& json) { return *parse_user_specs("a.json", json.dump()).at(0).op; }

TEST(UserOperator, Reads) {
  const OperatorSpec op = parse_operator(operator_file());
  EXPECT_EQ(op.name, "my_sum");
  ASSERT_EQ(op.indices.size(), 4u);
  EXPECT_EQ(op.indices[0].name + op.indices[1].name + op.indices[2].name + op.indices[3].name, "icrk");
  EXPECT_TRUE(op.indices[3].size && !op.indices[2].size);
  const OutputSpec& y = op.outputs.at(0);
  EXPECT_THAT(y.index, ElementsAre(0, 1));
  EXPECT_THAT(y.over, ElementsAre(2, 3));
  EXPECT_THAT(y.channels, ElementsAre(1));
  ASSERT_EQ(y.addends.size(), 3u);
  ASSERT_EQ(y.start.size(), 1u);
  const auto texts = [](const AddendSpec& addend) {
    std::string text = addend.negative ? "-" : "+";
    for (const Expression& input : addend.inputs) text += "[" + input.text() + "]";
    for (const auto& [divides, factor, is_rounded] : addend.weights)
      text += (divides ? "/{" : "*{") + factor.text() + "}";
    std::erase(text, ' ');
    return text;
  };
  EXPECT_EQ(texts(y.addends[0]), "+[x[r,c]][x[row[r],c]]*{alpha}*{(1-p.fraction)}");
  EXPECT_EQ(texts(y.addends[1]), "-[x[r,c]]*{2.5e-1}/{3}");
  EXPECT_EQ(texts(y.addends[2]), "-[x[r,k]]");
}

// The recorder records what the operator is called, and nothing else of it.
TEST(UserOperator, IsNamedInTheCall) {
  const auto adapters = parse_user_adapters("a.json", operator_file().dump());
  struct Mine {
    int32_t n = 5;
    float alpha = 2;
    uint64_t x = 0x100, row = 0x200, mask = 0x300, y = 0x400;
  } mine;
  const Launch launch =
      Packer().add(mine.n).add(mine.alpha).add(mine.x).add(mine.row).add(mine.mask).add(mine.y).launch("mine");
  const Decoded decoded = adapters.at(0)->decode(launch, nullptr);
  ASSERT_EQ(reason(decoded), "not refused");
  EXPECT_EQ(std::get<Call>(decoded).facts.texts.at("operator"), "my_sum");
}

// The library's file is not looked at: the recorder runs inside of somebody's program, which must not load it.
TEST(UserOperator, OfALibrary) {
  Json json = operator_file();
  Json& op = json["adapters"][0]["operator"];
  op = {{"name", "my_sum"}, {"library", "no/such/library.so"}};
  const OperatorSpec spec = parse_operator(json);
  EXPECT_EQ(spec.name, "my_sum");
  EXPECT_EQ(spec.library, "no/such/library.so");
  EXPECT_TRUE(spec.indices.empty() && spec.outputs.empty());
  EXPECT_EQ(parse_user_adapters("a.json", json.dump()).size(), 1u);
  for (const auto& [value, why] : {std::pair{Json(3), "is not a text"},
                                   {Json(""), "is no path"},
                                   {Json("a\nb"), "is no path"},
                                   {Json(std::string(4097, 'a')), "is no path"}}) {
    op["library"] = value;
    EXPECT_THAT([&] { parse_operator(json); }, ThrowsMessage<BadAdapterFile>(testing::AllOf(
                                                   HasSubstr("a.json: /adapters/0/operator/library"), HasSubstr(why))));
  }
  op = {{"name", "my_sum"}, {"library", "a.so"}, {"outputs", Json::array()}};
  EXPECT_THAT([&] { parse_operator(json); },
              ThrowsMessage<BadAdapterFile>(HasSubstr("unknown key \"outputs\"; there are name, library")));
}

TEST(UserOperator, Refuses) {
  const auto refuses = [](const std::string& pointer, const Json& value, const std::string& why) {
    Json json = operator_file();
    json["adapters"][0]["operator"][Json::json_pointer(pointer)] = value;
    EXPECT_THAT([&] { parse_operator(json); }, ThrowsMessage<BadAdapterFile>(testing::AllOf(
                                                   HasSubstr("a.json: /adapters/0/operator"), HasSubstr(why))))
        << pointer << " " << value;
  };
  refuses("/name", "scatter_add", "is built in");
  refuses("/name", "two words", "is not a name");
  refuses("/more", 1, "unknown key \"more\"");
  refuses("/sizes", {{"q", 1}}, "unknown key \"q\"; there are i, c, r, k");
  refuses("/sizes/k", "i", "there is no \"i\" here");
  refuses("/outputs", Json::array(), "0 elements, not 1 to 3");
  refuses("/arithmetic", "float64", "there are float32, tensors");
  refuses("/outputs/0/loss", "x[r, c]", "is not named grad_ and then as a tensor");
  refuses("/outputs/0/tensor", "x", "no tensor of role output or inout");
  refuses("/outputs/0/index", {"i"}, "has 1 names, and y has 2 dimensions");
  refuses("/outputs/0/index", {"i", "i"}, "there twice");
  refuses("/outputs/0/index", {"n", "c"}, "has another meaning");
  refuses("/outputs/0/over", {"r", "k", "i"}, "is an index of the tensor");
  refuses("/outputs/0/over", {"a", "b", "d", "e", "f", "g", "h"}, "one index too many");
  refuses("/outputs/0/channels", {"r"}, "is no index of the output");
  refuses("/outputs/0/where/0", "row[r] = i", "has no comparison");
  refuses("/outputs/0/where/0", "row[r, 1] == i", "row has 1 dimensions, not 2");
  refuses("/outputs/0/where/0", "x[r, c] == 0", "is a channel");
  refuses("/outputs/0/where/0", "mask[r] == 0", "of type uint8");
  refuses("/outputs/0/where/0", "c == row[r]", "the addends of all channels are the same");
  refuses("/outputs/0/start", "x[r, c]", "there is no \"r\" here");
  refuses("/outputs/0/addends", "", "where a number, a name");
  refuses("/outputs/0/addends", "x[r, c", "where \",\" or \"]\" is expected");
  refuses("/outputs/0/addends", "x[r]", "x has 2 dimensions, not 1");
  refuses("/outputs/0/addends", "z[r]", "no tensor \"z\"");
  refuses("/outputs/0/addends", "q * x[r, c]", "there is no \"q\" here; there are i, c, r, k, p.cell");
  refuses("/outputs/0/addends", "x[x[r, c], c]", "where integers are wanted");
  refuses("/outputs/0/addends", "x[r, alpha]", "that is no integer");
  refuses("/outputs/0/addends", "x[r, p.fraction]", "that is no integer");
  refuses("/outputs/0/addends", "5 % n", "which is for integers");
  refuses("/outputs/0/addends", "x[r,c]*x[r,c]*x[r,c]*x[r,c]*x[r,c]", "more than 4 elements");
  refuses("/outputs/0/addends", std::string(1001, ' '), "more than 1000 characters");
  refuses("/outputs/0/coordinates/0/location", "row[i]", "no element of a floating-point tensor");
  refuses("/outputs/0/coordinates/0/location", "x[r, 0]", "there is no \"r\" here");
  refuses("/outputs/0/coordinates/0/value", "p.cell", "there is no \"p.cell\" here");
  refuses("/outputs/0/coordinates/0/name", "grid", "has another meaning");
  Json json = operator_file();
  json["adapters"][0]["dialect"] = "msda_triton";
  EXPECT_THROW(parse_operator(json), BadAdapterFile);
}

// Real numbers may be compared, and what is computed of floating-point tensors is a weight.
TEST(UserOperator, ComputesOfRealNumbers) {
  for (const auto& [pointer, value] : {std::pair{"/outputs/0/where/0", "alpha == 0"},
                                       {"/outputs/0/where/0", "p.fraction == 0"},
                                       {"/outputs/0/addends", "1 / x[r, c]"},
                                       {"/outputs/0/addends", "(x[r, c] + 1) * alpha"},
                                       {"/outputs/0/addends", "x[r, c] * int(r % 2) * (1 - p.fraction)"},
                                       {"/outputs/0/coordinates/0/value", "location + int(i / 2 * n) - 0.5"},
                                       {"/outputs/0/where/0", "int(row[r] / 2) < alpha"},
                                       {"/outputs/0/loss", "linear"},
                                       {"/arithmetic", "tensors"}}) {
    Json json = operator_file();
    json["adapters"][0]["operator"][Json::json_pointer(pointer)] = value;
    EXPECT_NO_THROW(parse_operator(json)) << pointer << " " << value;
  }
}

TEST(UserOperator, DamagedOnes) {
  std::mt19937 random(5);
  const std::string good = operator_file().dump();
  const size_t from = good.find("\"operator\"");
  int accepted = 0;
  for (int i = 0; i < 5000; ++i) {
    std::string text = good;
    for (auto changes = 1 + random() % 3; changes > 0; --changes) {
      const size_t at = from + random() % (text.size() - from);
      if (random() % 2 == 0) text.erase(at, random() % 4);
      text.insert(std::min(at, text.size()), 1, "0123456789-{}[]\",:*/%()+. rkicpxe"[random() % 33]);
      if (text.size() <= from) break;
    }
    try {
      accepted += static_cast<int>(parse_user_specs("a.json", text).size());
    } catch (const BadAdapterFile&) {
    }
  }
  EXPECT_GT(accepted, 20);
}

}  // namespace
}  // namespace msda::adapters
