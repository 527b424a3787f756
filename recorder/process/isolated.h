// An object in a process of its own, whose functions are called by messages.
#pragma once

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <utility>

#include "recorder/process/channel.h"
#include "recorder/process/fenced_process.h"

namespace nlohmann {

template <class T>
struct adl_serializer<std::optional<T>> {
  static void to_json(json& to, const std::optional<T>& value) { to = value ? json(*value) : json(); }
  static void from_json(const json& from, std::optional<T>& value) {
    value = from.is_null() ? std::nullopt : std::optional<T>(from.get<T>());
  }
};

}  // namespace nlohmann

namespace msda::process {

// The class Server has a function allow_time(), which is called before each other function, and a static one,
// error(arguments of the constructor), which returns what to report of the exception that is being handled, or throws
// it again. Arguments and results are what nlohmann/json converts. Not thread-safe.
template <class Server>
class Isolated {
 public:
  using Json = nlohmann::json;
  template <auto Function, class... Arguments>
  using Result = std::remove_cvref_t<std::invoke_result_t<decltype(Function), Server&, const Arguments&...>>;

  // Forks a process that makes Server(channel, arguments...) when its first function is called. `fail` throws; all of
  // the functions call it if they fail.
  template <class... Arguments>
  explicit Isolated(std::function<void(const Failure&)> fail, const Arguments&... arguments) : fail_(std::move(fail)) {
    try {
      process_.emplace([&](Channel& channel) { serve(channel, arguments...); });
    } catch (const std::system_error& e) {
      fail_with({Failure::How::kNotStarted, e.code().message()});
    }
  }

  template <auto Function, class... Arguments>
  Result<Function, Arguments...> call(const Arguments&... arguments) {
    request<Function>(arguments...);
    return answer<Result<Function, Arguments...>>();
  }

  // The two halves of a call, between which, or while waiting for the answer, both sides may send data.
  template <auto Function, class... Arguments>
  void request(const Arguments&... arguments) {
    // The process was forked from this one, so that functions have the same addresses in it.
    const auto address = reinterpret_cast<uintptr_t>(&handle<Function, Arguments...>);
    if (!channel().send(Json::array({address, Json::array({Json(arguments)...})}))) fail();
  }
  template <class Answer>
  Answer answer(const Channel::Room& room = {}) {
    const std::optional<Json> answer = channel().receive(room);
    if (!answer) fail();
    try {
      if (answer->contains("error")) fail_with({Failure::How::kError, answer->at("error")});
      return answer->at("result").template get<Answer>();
    } catch (const Json::exception&) {
      refuse_answer();
    }
  }

  Channel& channel() { return process_->channel(); }
  // Call it if the channel has failed, with its errno.
  [[noreturn]] void fail() { fail_with(process_->end()); }
  // Call it if what was received cannot be: the process has overwritten its memory.
  [[noreturn]] void refuse_answer() {
    errno = EBADMSG;
    fail();
  }

 private:
  using Handler = Json (*)(Server&, const Json& arguments);

  template <auto Function, class... Arguments>
  static Json handle(Server& server, const Json& arguments) {
    return std::apply([&](const Arguments&... values) -> Json { return std::invoke(Function, server, values...); },
                      arguments.get<std::tuple<Arguments...>>());
  }

  template <class... Arguments>
  static void serve(Channel& channel, const Arguments&... arguments) {
    std::optional<Server> server;
    while (const auto request = channel.receive()) {
      Json answer;
      try {
        if (!server) server.emplace(channel, arguments...);
        server->allow_time();
        answer["result"] = reinterpret_cast<Handler>(request->at(0).template get<uintptr_t>())(*server, request->at(1));
      } catch (...) {
        answer["error"] = Server::error(arguments...);
      }
      if (!channel.send(answer)) break;
    }
    end_process();  // without destroying the server: libhdf5 would free the description of each object, one by one
  }

  [[noreturn]] void fail_with(const Failure& failure) {
    fail_(failure);
    std::abort();
  }

  std::function<void(const Failure&)> fail_;
  std::optional<FencedProcess> process_;
};

}  // namespace msda::process
