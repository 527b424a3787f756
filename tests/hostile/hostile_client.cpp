// usage: hostile_client MODE [ARGUMENT...]. Each mode makes calls of msda_backward and does something to its process
// that must neither break the recorder nor be disturbed by it. It prints what it saw; its exit status must not change.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "kernels/msda.h"

namespace {

// One call whose value holds `seed`; its status.
msda_status call(float seed, msda_options options = {}, bool with_shapes = true, bool with_locations = true) {
  static int64_t sides[] = {3, 4};
  const int64_t value_shape[] = {1, 12, 1, 4}, shapes_shape[] = {1, 2}, locations_shape[] = {1, 5, 1, 1, 2, 2};
  const int64_t weights_shape[] = {1, 5, 1, 1, 2}, output_shape[] = {1, 5, 1, 4};
  std::vector<float> value(48, seed), locations(20, 0.4f), weights(10, 0.5f), grad_output(20, 1.f);
  std::vector<float> grad_value(48), grad_locations(20), grad_weights(10);
  const auto tensor = [](std::vector<float>& numbers, int32_t rank, const int64_t* shape) {
    return msda_contiguous(numbers.data(), MSDA_FLOAT32, rank, shape);
  };
  msda_call arguments{};
  arguments.dialect = MSDA_MSDA_TRITON;
  arguments.padding = MSDA_PADDING_BORDER;
  arguments.value = tensor(value, 4, value_shape);
  arguments.spatial_shapes = msda_contiguous(sides, MSDA_INT64, with_shapes ? 2 : 1, shapes_shape);
  arguments.level_start_index = msda_contiguous(nullptr, MSDA_INT64, 0, nullptr);
  arguments.sampling_locations = tensor(locations, 6, locations_shape);
  arguments.attention_weights = tensor(weights, 5, weights_shape);
  const msda_tensor output = tensor(grad_output, 4, output_shape), to_value = tensor(grad_value, 4, value_shape);
  const msda_tensor to_locations = tensor(grad_locations, 6, locations_shape);
  const msda_tensor to_weights = tensor(grad_weights, 5, weights_shape);
  return msda_backward(&arguments, &output, &options, &to_value, with_locations ? &to_locations : nullptr, &to_weights);
}

int calls(int from, int count) {
  int failed = 0;
  for (int i = 0; i < count; ++i) failed += call(static_cast<float>(from + i)) != MSDA_OK;
  return failed;
}

using Arguments = std::vector<std::string>;

int plain(const Arguments& arguments) { return calls(0, arguments.empty() ? 20 : std::stoi(arguments[0])); }

// Starts like a daemon: closes all descriptors that it did not open, and opens files; not so many that none is free.
int closes_descriptors(const Arguments&) {
  constexpr char kData[] = "the program's own data\n";
  constexpr rlim_t kMost = 1100, kFree = 24;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  calls(0, 1);
  closefrom(3);
  std::vector<int> files;
  for (rlim_t i = 0; i < std::min(kMost, limit.rlim_cur - kFree); ++i) {
    const int file = open(("own." + std::to_string(i % 40)).c_str(), O_RDWR | O_CREAT, 0600);
    if (file < 0) break;
    files.push_back(file);
    if (i < 40 && write(file, kData, sizeof kData - 1) < 0) return 9;
  }
  calls(100, 5);
  int changed = 0;
  for (int i = 0; i < 40; ++i) {
    char text[100] = {};
    changed += pread(files[static_cast<size_t>(i)], text, sizeof text - 1, 0) != sizeof kData - 1 ||
               std::strcmp(text, kData) != 0;
  }
  std::printf("changed %d\n", changed);
  return changed;
}

// And opens as many as it may.
int uses_all_descriptors(const Arguments&) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = 200;
  setrlimit(RLIMIT_NOFILE, &limit);
  calls(0, 1);
  closefrom(3);
  while (open("own", O_RDWR | O_CREAT, 0600) >= 0) {
  }
  return calls(100, 5);
}

// And opens none: the numbers that the recorder had are free.
int closes_descriptors_alone(const Arguments&) {
  calls(0, 1);
  closefrom(3);
  return calls(100, 5);
}

int reuses_descriptors_as_sockets(const Arguments&) {
  calls(0, 1);
  closefrom(3);
  std::vector<int> sockets;
  for (int ends[2]; sockets.size() < 1000 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0;) {
    sockets.insert(sockets.end(), ends, ends + 2);
  }
  calls(100, 5);
  int strays = 0;
  for (const int socket : sockets) {
    char bytes[64];
    strays += read(socket, bytes, sizeof bytes) > 0;
  }
  std::printf("strays %d\n", strays);
  return strays;
}

int closes_standard_streams(const Arguments& arguments) {
  for (const std::string& number : arguments) close(std::stoi(number));
  const int failed = calls(0, 3);
  if (arguments == Arguments{"1"}) {
    std::printf("a line to a closed standard output\n");
    std::fflush(stdout);
  }
  return failed + calls(3, 3);
}

int exits_from_a_handler(const Arguments& arguments) {
  signal(SIGALRM, [](int) { _exit(7); });
  const itimerval timer{{0, 0}, {0, std::stoi(arguments[0])}};
  setitimer(ITIMER_REAL, &timer, nullptr);
  for (int i = 0;; ++i) calls(i, 1);
}

int limits_file_sizes(const Arguments& arguments) {
  const rlimit limit{std::stoul(arguments[0]), RLIM_INFINITY};
  setrlimit(RLIMIT_FSIZE, &limit);
  return calls(0, 50);
}

int limits_descriptors(const Arguments&) {
  const rlimit limit{3, 3};
  setrlimit(RLIMIT_NOFILE, &limit);
  return calls(0, 5);
}

int starts_a_program_that_is_not_there(const Arguments&) {
  const pid_t child = vfork();
  if (child == 0) {
    execl("/nonexistent/program", "program", nullptr);
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return calls(0, 3) + (WEXITSTATUS(status) != 127);
}

// A copy of the process that no fork handler has seen, and that outlives it.
int clones_itself(const Arguments& arguments) {
  calls(0, 1);
  if (syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr) == 0) {
    calls(50, 2);
    sleep(static_cast<unsigned>(std::stoi(arguments[0])));
    _exit(0);
  }
  return 0;
}

// Threads record while the main thread forks children that record too. A child that waits for ever gets SIGALRM.
int forks_amidst_calls(const Arguments& arguments) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      int i = 0;
      do calls(t * 100000 + i++, 1);
      while (!stop);
    });
  }
  int failed = 0;
  for (int i = 0; i < std::stoi(arguments[0]); ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      _exit(calls(-1 - i, 1));
    }
    int status = -1;
    waitpid(child, &status, 0);
    failed += status != 0;
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  std::printf("failed %d\n", failed);
  return failed;
}

int counts_children(const Arguments&) {
  static volatile sig_atomic_t ended = 0;
  signal(SIGCHLD, [](int) { ended = ended + 1; });
  calls(0, 1);
  usleep(100000);
  int status = 0;
  const pid_t child = wait(&status);
  std::printf("child %d errno %d signals %d\n", child, errno, static_cast<int>(ended));
  return 0;
}

int is_interrupted(const Arguments&) {
  struct sigaction action {};
  action.sa_handler = [](int) {};
  sigaction(SIGALRM, &action, nullptr);
  const itimerval timer{{0, 700}, {0, 700}};
  setitimer(ITIMER_REAL, &timer, nullptr);
  return calls(0, 1000);
}

int tells_ignored_signals(const Arguments&) {
  for (const int number : {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ}) {
    std::printf("%d ", signal(number, SIG_DFL) == SIG_IGN);
  }
  std::printf("\n");
  return calls(0, 1);
}

int waits_for_a_signal(const Arguments&) {
  static volatile sig_atomic_t got = 0;
  for (const int number : {SIGTERM, SIGHUP}) signal(number, [](int which) { got = which; });
  calls(0, 2);
  std::printf("ready\n");
  std::fflush(stdout);
  while (got == 0) usleep(1000);
  calls(2, 2);
  return 40 + got;
}

// Calls with equal inputs that request different outputs, and one that fails between two that succeed.
int varies_options(const Arguments&) {
  msda_options atomic{}, other_seed{}, mixed{}, other_stages{};
  atomic.mode = other_seed.mode = MSDA_MODE_ATOMIC;
  other_seed.seed = 1;
  mixed.mode = other_stages.mode = MSDA_MODE_MIXED;
  other_stages.float64_stages = 1u << MSDA_STAGE_GRAD_VALUE;
  int failed = 0;
  for (int again = 0; again < 2; ++again) {
    for (const msda_options& options : {msda_options{}, atomic, other_seed, mixed, other_stages}) {
      failed += call(1, options) != MSDA_OK;
    }
    failed += call(1, {}, true, /*with_locations=*/false) != MSDA_OK;
  }
  return failed;
}

int fails_first(const Arguments&) {
  const int refused = call(1, {}, /*with_shapes=*/false) != MSDA_OK;
  return calls(1, 1) + !refused;
}

// A, B, A.
int comes_back(const Arguments&) { return calls(1, 1) + calls(2, 1) + calls(1, 1); }

int runs_long(const Arguments& arguments) {
  for (int i = 0; i < std::stoi(arguments[0]); ++i) {
    calls(i, 1);
    std::printf("%d\n", i);
    std::fflush(stdout);
    usleep(1000);  // the capture is to be checked, too
  }
  return 0;
}

int ends(const Arguments& arguments) {
  calls(0, 3);
  const std::map<std::string, std::function<void()>> ways = {{"quick_exit", [] { quick_exit(6); }},
                                                             {"abort", [] { std::abort(); }},
                                                             {"exit_group", [] { syscall(SYS_exit_group, 8); }},
                                                             {"_Exit", [] { _Exit(9); }}};
  ways.at(arguments[0])();
  return 0;
}

// A call from a thread with the least stack that there is.
int has_little_stack(const Arguments&) {
  pthread_attr_t attributes;
  pthread_t thread;
  // The least there is, beside what the libraries keep for each thread, such as CUDA's runtime in libmsda: glibc's own
  // sum.
  using Least = size_t (*)(const pthread_attr_t*);
  const auto least = reinterpret_cast<Least>(dlsym(RTLD_DEFAULT, "__pthread_get_minstack"));
  if (least == nullptr || pthread_attr_init(&attributes)) return 9;
  if (pthread_attr_setstacksize(&attributes, least(&attributes))) return 9;
  const auto run = [](void*) -> void* { return call(1) == MSDA_OK ? nullptr : &errno; };
  void* failed = nullptr;
  if (pthread_create(&thread, &attributes, run, nullptr) || pthread_join(thread, &failed)) return 9;
  return failed != nullptr;
}

}  // namespace

int main(int count, char** values) {
  const std::map<std::string, int (*)(const Arguments&)> modes = {
      {"plain", plain},
      {"closes_descriptors", closes_descriptors},
      {"closes_descriptors_alone", closes_descriptors_alone},
      {"uses_all_descriptors", uses_all_descriptors},
      {"reuses_descriptors_as_sockets", reuses_descriptors_as_sockets},
      {"closes_standard_streams", closes_standard_streams},
      {"exits_from_a_handler", exits_from_a_handler},
      {"limits_file_sizes", limits_file_sizes},
      {"limits_descriptors", limits_descriptors},
      {"starts_a_program_that_is_not_there", starts_a_program_that_is_not_there},
      {"clones_itself", clones_itself},
      {"forks_amidst_calls", forks_amidst_calls},
      {"counts_children", counts_children},
      {"is_interrupted", is_interrupted},
      {"tells_ignored_signals", tells_ignored_signals},
      {"waits_for_a_signal", waits_for_a_signal},
      {"varies_options", varies_options},
      {"fails_first", fails_first},
      {"comes_back", comes_back},
      {"runs_long", runs_long},
      {"ends", ends},
      {"has_little_stack", has_little_stack}};
  const auto mode = count > 1 ? modes.find(values[1]) : modes.end();
  if (mode == modes.end()) return 99;
  return mode->second(Arguments(values + 2, values + count));
}
