// Rows that wait for their digests, and what comes for those that wait no more.
#include "recorder/preload/trail/trail_rows.h"

#include <gtest/gtest.h>

namespace msda::record {
namespace {

TEST(TrailRows, AreDeliveredInOrder) {
  TrailRows rows;
  const uint64_t first = rows.append({}, 1), second = rows.append({}, 2);
  rows.awaits(first);
  rows.awaits(second);
  rows.arrived(second);
  rows.collect();
  EXPECT_EQ(rows.next(), 2u);
  rows.arrived(first);
  rows.collect();
  EXPECT_EQ(rows.append({}, 3), 2u);
}

// As when the program exits while another thread is in a launch.
TEST(TrailRows, WhatComesForRowsThatWereGivenUpIsLeft) {
  TrailRows rows;
  for (int i = 0; i < 100; ++i) rows.awaits(rows.append({}, 0));
  rows.give_up();
  for (uint64_t row = 0; row < 200; ++row) {
    rows.add(row, 0, {1, 2}, 16);
    rows.learnt(row, 0, /*is_sparse=*/true);
    rows.awaits(row);
    rows.arrived(row);
    rows.failed(row);
  }
  EXPECT_EQ(rows.append({}, 0), 100u);
}

TEST(TrailRows, EqualEntriesAreOne) {
  TrailRows rows;
  Caller caller;
  caller.python = "train.py:1 step";
  EXPECT_EQ(rows.caller(caller, "a"), 0u);
  EXPECT_EQ(rows.caller(caller, "b"), 1u);
  EXPECT_EQ(rows.caller(caller, "a"), 0u);
  EXPECT_EQ(rows.caller({}, ""), spool::TrailRow::kNone);
  EXPECT_EQ(rows.parts("0+0:16"), 0u);
  EXPECT_EQ(rows.parts("0+0:32"), 1u);
  EXPECT_EQ(rows.parts("0+0:16"), 0u);
  Launched launched{};
  launched.grid = {4, 1, 1};
  EXPECT_EQ(rows.configuration(launched), 0u);
  launched.shared_bytes = 16;
  EXPECT_EQ(rows.configuration(launched), 1u);
}

}  // namespace
}  // namespace msda::record
