#include "recorder/preload/session/recording_state.h"

#include <utility>

#include "recorder/spool/write_signals.h"

namespace msda::record {
namespace {

// How many contents are known at a time with --keep all. An evicted content is recorded again when it comes again.
constexpr size_t kKnown = 4096;

// Returns whether a record has what the output buffers held; with digests only, each has.
bool has_before(const LaunchRecord& record) {
  return !record.content.known || !record.outputs_before.empty() || record.outputs.empty();
}

}  // namespace

Recording::State::State(const Config& settings)
    : config(settings),
      frames(settings),
      ledger(settings.keep_last > 0 ? static_cast<size_t>(settings.keep_last) : kKnown) {}

void Recording::State::append_count(const std::optional<ContentLedger::Count>& count) {
  if (count) frames.append(spool::Count{count->invocation, count->duplicates, count->distinct_outputs});
}

// With --keep all, contents that leave the ledger stay in the capture.
void Recording::State::forget_evicted() {
  while (const auto evicted = ledger.evict()) {
    if (config.keep_last == 0) {
      unknown_bytes += evicted->bytes;
      continue;
    }
    const uint64_t appended = frames.append(spool::Drop{evicted->invocation});
    std::erase_if(unread,
                  [&](const HandedOver& launch) { return launch.record.content.invocation == evicted->invocation; });
    read.erase(evicted->invocation);
    frames.dropped(evicted->bytes + appended);
  }
}

// Returns the bytes appended.
uint64_t Recording::State::append(const LaunchRecord& record, uint32_t attempt, const RingBlock* block) {
  const spool::WriteSignalsHeld held_for_all;
  const uint64_t invocation = record.content.invocation;
  uint64_t bytes = frames.append_begin(record.facts, invocation, attempt);
  bytes += frames.append_tensors(invocation, attempt, "inputs", record.inputs, block);
  bytes += frames.append_tensors(invocation, attempt, "outputs_before", record.outputs_before, block);
  bytes += frames.append_tensors(invocation, attempt, "outputs", record.outputs, block);
  bytes += frames.append(spool::Parameters{invocation, attempt, record.parameter_offsets, record.parameter_sizes},
                         record.parameter_bytes);
  return bytes + frames.append_end(invocation, attempt, record.digests);
}

void Recording::State::write(LaunchRecord record) {
  const RegisteredContent& content = record.content;
  const RingBlock* block = record.block && writer_reads ? &record.block : nullptr;
  const auto before = has_before(record) ? std::optional(record.before) : std::nullopt;
  const uint32_t attempt = content.known ? ledger.next_attempt(content.key) : 0;
  const uint64_t bytes = append(record, attempt, block);
  if (content.known) {
    ledger.supersede(content.key, before, bytes);
  } else {
    ledger.deliver_first(content.key, record.before, bytes);
  }
  record.content.settle();
  forget_read();
  if (block != nullptr && !frames.has_ended()) {
    record.block.hand_over();
    unread.push_back({std::move(record), attempt});
  }
  forget_evicted();
}

void Recording::State::forget_read() {
  std::erase_if(unread, [this](const HandedOver& launch) {
    if (!launch.record.block.is_read()) return false;
    if (config.keep_last > 0) read.insert(launch.record.content.invocation);
    return true;
  });
}

size_t Recording::State::write_unread() {
  forget_read();
  for (HandedOver& launch : unread) {
    frames.dropped(append(launch.record, launch.attempt, nullptr));  // it has counted towards the limit already
    launch.record.block.take_back();
  }
  unread.clear();
  return std::exchange(read, {}).size();
}

void Recording::State::write_held() {
  if (held) write(*std::exchange(held, std::nullopt));
}

void Recording::State::deliver(LaunchRecord&& record) {
  const RegisteredContent& content = record.content;
  auto later = ContentLedger::Later::kSupersede;
  if (content.known) {
    later = ledger.deliver_later(content.key, content.invocation, record.before, has_before(record));
    record.content.settle();
  }
  if (later == ContentLedger::Later::kLost) return;
  ledger.add_outputs(content.key, record.code, record.outputs_digest);
  if (content.known) append_count(ledger.count(content.key, 1));
  if (later == ContentLedger::Later::kCount) return;
  // Only the last of launches with equal inputs is kept: the one before need not go to the writer.
  if (held && content.known && held->content.key == content.key) held.reset();
  write_held();
  if (content.known) {
    held = std::move(record);
  } else {
    write(std::move(record));
  }
}

uint64_t Recording::State::cut(bool keep) {
  write_held();
  const auto forgotten = ledger.forget_delivered();
  const uint64_t of_all = std::exchange(unknown_bytes, 0) + forgotten.bytes;
  if (forgotten.contents == 0) return 0;
  frames.append(spool::Cut{++cuts, keep});
  read.clear();
  if (!keep) unread.clear();          // the writer frees their blocks
  if (!keep) frames.dropped(of_all);  // and not what calls under way have counted already
  return cuts;
}

}  // namespace msda::record
