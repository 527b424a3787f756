#include "recorder/preload/survey/trial_lock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "recorder/preload/survey/patience.h"

namespace msda::record {
namespace {

constexpr double kLong = 60, kShort = 0.02;  // seconds

// What another thread gets.
TrialLock::Turn taken_elsewhere(TrialLock& lock, double seconds) {
  TrialLock::Turn turn;
  std::thread([&] { turn = lock.take(seconds); }).join();
  return turn;
}

TEST(TrialLock, OneOwnsIt) {
  TrialLock lock;
  auto turn = lock.take(kLong);
  EXPECT_TRUE(turn.owns_lock());
  EXPECT_TRUE(turn.is_alone(kShort));
  EXPECT_FALSE(taken_elsewhere(lock, kShort).owns_lock());
  turn.end();
  EXPECT_TRUE(taken_elsewhere(lock, kLong).owns_lock());
}

TEST(TrialLock, NobodyRepeatsOnceSomebodyHasPassed) {
  TrialLock lock;
  auto turn = lock.take(kLong);
  ASSERT_TRUE(turn.is_alone(kShort));
  taken_elsewhere(lock, kShort).end();
  EXPECT_FALSE(turn.begin_repeating());
  turn.end();
  turn = lock.take(kLong);
  ASSERT_TRUE(turn.is_alone(kShort));
  EXPECT_TRUE(turn.begin_repeating());  // in the next turn that is over
}

TEST(TrialLock, NobodyPassesWhileLaunchesRepeat) {
  TrialLock lock;
  auto turn = lock.take(kLong);
  ASSERT_TRUE(turn.is_alone(kShort) && turn.begin_repeating());
  std::atomic<bool> has_turn{false};
  std::thread another([&] {
    EXPECT_TRUE(lock.take(kShort).owns_lock());
    has_turn = true;
  });
  std::this_thread::sleep_for(std::chrono::duration<double>(5 * kShort));
  EXPECT_FALSE(has_turn);
  turn.end();
  another.join();
}

TEST(TrialLock, WaitsForThoseWhoPass) {
  TrialLock lock;
  auto passing = lock.take(kLong);
  passing.pass();
  EXPECT_FALSE(passing.owns_lock());
  auto turn = taken_elsewhere(lock, kShort);
  ASSERT_TRUE(turn.owns_lock());
  EXPECT_FALSE(turn.is_alone(kShort));
  EXPECT_FALSE(turn.begin_repeating());
  passing.end();
  EXPECT_TRUE(turn.is_alone(kShort));
  EXPECT_TRUE(turn.begin_repeating());
}

TEST(TrialLock, AThreadDoesNotWaitForItself) {
  TrialLock lock;
  auto turn = lock.take(kLong);
  ASSERT_TRUE(turn.is_alone(kShort));
  EXPECT_FALSE(lock.take(kLong).owns_lock());
  EXPECT_FALSE(lock.take_at_end(kLong).owns_lock());
  EXPECT_FALSE(turn.begin_repeating());
}

TEST(TrialLock, NoTurnIsAPartOfAnother) {
  TrialLock::Turn none;
  EXPECT_TRUE(none.is_alone(kShort));
  EXPECT_TRUE(none.begin_repeating());
  EXPECT_FALSE(none.owns_lock());
}

TEST(TrialLock, ThreadsHaveTheirTurnsInOrder) {
  TrialLock lock;
  std::vector<int> order;
  auto turn = lock.take(kLong);
  std::vector<std::thread> threads;
  for (int i = 0; i < 5; ++i) {
    threads.emplace_back([&, i] {
      const auto mine = lock.take(kLong);
      if (mine.owns_lock()) order.push_back(i);
    });
    std::this_thread::sleep_for(std::chrono::duration<double>(kShort));
  }
  turn.end();
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(order, (std::vector{0, 1, 2, 3, 4}));
}

// However eager the others are.
TEST(TrialLock, HasATurnAtTheEnd) {
  TrialLock lock;
  std::atomic<bool> is_over{false};
  std::thread eager([&] {
    while (!is_over) {
      const auto turn = lock.take(kLong);
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
    }
  });
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(lock.take_at_end(1).owns_lock());
  is_over = true;
  eager.join();
}

TEST(Patience, IsBounded) {
  Patience patience(10, 0.1, 0.001);
  double waited = 0;
  for (int i = 0; i < 1000; ++i) {
    waited += patience.seconds();
    EXPECT_FALSE(patience.note(false));
  }
  EXPECT_LT(waited, 11.5);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(patience.note(true));
  EXPECT_DOUBLE_EQ(patience.seconds(), 0.1);
  EXPECT_TRUE(Patience(10, 0.1, 0.001).note(true));
}

TEST(Patience, StaysWholeWhileNothingIsInVain) {
  Patience patience(10, 0.1, 0.001);
  patience.note(true);
  EXPECT_DOUBLE_EQ(patience.seconds(), 10);
}

}  // namespace
}  // namespace msda::record
