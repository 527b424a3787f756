// A library that, while it is loaded, tries to start a program that does not exist.
#include <sys/wait.h>
#include <unistd.h>

__attribute__((constructor)) static void start_a_program(void) {
  const pid_t child = vfork();
  if (child == 0) {
    execl("/nonexistent/program", "program", (char*)0);
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
}
