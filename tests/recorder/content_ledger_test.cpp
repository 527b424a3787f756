// Which contents a recording knows, by the rules of content_ledger.h.
#include "recorder/preload/session/content_ledger.h"

#include <gtest/gtest.h>

namespace msda::tests {
namespace {

using record::ContentLedger;
using Later = ContentLedger::Later;

// A call of a content that is recorded; its invocation.
uint64_t call(ContentLedger& ledger, const std::string& key, const std::string& before = "") {
  const auto entered = ledger.register_call(key, before);
  if (!entered.known) {
    ledger.deliver_first(key, before, 100);
  } else {
    ledger.deliver_later(key, entered.invocation, before, false);
    ledger.count(key, 1);
  }
  return entered.invocation;
}

std::vector<uint64_t> evicted(ContentLedger& ledger) {
  std::vector<uint64_t> invocations;
  while (const auto entry = ledger.evict()) invocations.push_back(entry->invocation);
  return invocations;
}

TEST(ContentLedger, KeepsWhatWasCalledLast) {
  ContentLedger ledger(1);
  EXPECT_EQ(call(ledger, "A"), 0u);
  EXPECT_EQ(evicted(ledger), (std::vector<uint64_t>{}));
  EXPECT_EQ(call(ledger, "B"), 1u);
  EXPECT_EQ(evicted(ledger), (std::vector<uint64_t>{0}));
  EXPECT_FALSE(ledger.knows("A"));
  EXPECT_EQ(call(ledger, "A"), 2u);  // recorded again, under a number of its own
  EXPECT_EQ(evicted(ledger), (std::vector<uint64_t>{1}));
}

TEST(ContentLedger, ARepetitionMakesAContentTheNewest) {
  ContentLedger ledger(2);
  call(ledger, "A");
  call(ledger, "B");
  call(ledger, "A");
  call(ledger, "C");
  EXPECT_EQ(evicted(ledger), (std::vector<uint64_t>{1}));
  EXPECT_TRUE(ledger.knows("A") && ledger.knows("C"));
}

TEST(ContentLedger, ForgetsWhatBelongsToACaptureThatHasEnded) {
  ContentLedger ledger(10);
  EXPECT_EQ(ledger.forget_delivered().contents, 0u);
  call(ledger, "A");
  const auto repeated = ledger.register_call("A", "");
  const auto first = ledger.register_call("B", "");
  EXPECT_EQ(ledger.forget_delivered().contents, 1u);
  EXPECT_FALSE(ledger.knows("A"));
  EXPECT_EQ(ledger.deliver_later("A", repeated.invocation, "", false), Later::kLost);
  ledger.deliver_first("B", "", 100);
  EXPECT_EQ(ledger.register_call("B", "").invocation, first.invocation);
  EXPECT_FALSE(ledger.register_call("A", "").known);
  EXPECT_EQ(ledger.forget_delivered().contents, 1u);
  EXPECT_EQ(evicted(ledger), (std::vector<uint64_t>{}));
}

TEST(ContentLedger, KeepsContentsWithCallsUnderWay) {
  ContentLedger ledger(1);
  call(ledger, "A");
  const auto under_way = ledger.register_call("A", "");
  call(ledger, "B");
  EXPECT_EQ(evicted(ledger), (std::vector<uint64_t>{}));
  EXPECT_EQ(ledger.deliver_later("A", under_way.invocation, "", false), Later::kSupersede);
  EXPECT_EQ(evicted(ledger), (std::vector<uint64_t>{1}));  // A was called last
}

TEST(ContentLedger, AFailedCallIsNotRecorded) {
  ContentLedger ledger(8);
  const auto first = ledger.register_call("A", "");
  EXPECT_FALSE(first.known);
  EXPECT_FALSE(ledger.abandon_call("A", first.invocation));
  EXPECT_FALSE(ledger.knows("A"));
  EXPECT_EQ(evicted(ledger), (std::vector<uint64_t>{}));
  const auto second = ledger.register_call("A", "");
  EXPECT_FALSE(second.known);
  EXPECT_NE(second.invocation, first.invocation);
  ledger.deliver_first("A", "", 1);
  EXPECT_TRUE(ledger.register_call("A", "").known);
  EXPECT_TRUE(ledger.abandon_call("A", second.invocation));  // a failed repetition does not undo the recorded call
  EXPECT_TRUE(ledger.knows("A"));
}

TEST(ContentLedger, ACallThatReliedOnAFailedOneIsLost) {
  ContentLedger ledger(8);
  const auto first = ledger.register_call("A", ""), second = ledger.register_call("A", "");
  EXPECT_TRUE(second.known);
  ledger.abandon_call("A", first.invocation);
  EXPECT_EQ(ledger.deliver_later("A", second.invocation, "", false), Later::kLost);
  // Nor does it affect a third call that is recorded anew.
  const auto third = ledger.register_call("A", "");
  EXPECT_EQ(ledger.deliver_later("A", second.invocation, "", false), Later::kLost);
  EXPECT_TRUE(ledger.abandon_call("A", second.invocation));
  ledger.deliver_first("A", "", 1);
  EXPECT_EQ(call(ledger, "A"), third.invocation);
}

TEST(ContentLedger, KnowsWhatTheRecordedOutputBuffersHeldBefore) {
  ContentLedger ledger(8);
  const auto invocation = call(ledger, "launch", "X");
  EXPECT_TRUE(ledger.register_call("launch", "X").same_before);
  EXPECT_EQ(ledger.deliver_later("launch", invocation, "X", false), Later::kSupersede);
  // Y is copied, and takes X's place once its record is written.
  EXPECT_FALSE(ledger.register_call("launch", "Y").same_before);
  EXPECT_EQ(ledger.deliver_later("launch", invocation, "Y", true), Later::kSupersede);
  ledger.supersede("launch", "Y", 0);
  // So the next launch on X brings X along again.
  EXPECT_FALSE(ledger.register_call("launch", "X").same_before);
}

TEST(ContentLedger, ARecordWithoutTheBuffersThatItHadIsCountedOnly) {
  ContentLedger ledger(8);
  const auto invocation = call(ledger, "launch", "X");
  EXPECT_TRUE(ledger.register_call("launch", "X").same_before);   // does not copy X ...
  EXPECT_FALSE(ledger.register_call("launch", "Y").same_before);  // ... but Y comes in between
  ledger.deliver_later("launch", invocation, "Y", true);
  ledger.supersede("launch", "Y", 0);
  EXPECT_EQ(ledger.deliver_later("launch", invocation, "X", false), Later::kCount);
}

TEST(ContentLedger, CountsDifferentResultsOfTheSameCode) {
  ContentLedger ledger(8);
  const auto invocation = call(ledger, "A");
  for (const char* digest : {"1", "2", "2", ""}) ledger.add_outputs("A", "code", digest);
  ledger.add_outputs("A", "other code", "3");
  const auto count = ledger.count("A", 3);
  ASSERT_TRUE(count);
  EXPECT_EQ(count->invocation, invocation);
  EXPECT_EQ(count->duplicates, 3);
  EXPECT_EQ(count->distinct_outputs, 2);
  EXPECT_FALSE(ledger.count("never seen", 1));
}

TEST(ContentLedger, TellsTheBytesOfWhatIsForgotten) {
  ContentLedger ledger(1);
  const auto invocation = call(ledger, "A");
  ledger.supersede("A", std::nullopt, 23);
  call(ledger, "B");
  const auto gone = ledger.evict();
  ASSERT_TRUE(gone);
  EXPECT_EQ(gone->invocation, invocation);
  EXPECT_EQ(gone->bytes, 123u);
}

}  // namespace
}  // namespace msda::tests
