// A library of a program's that starts another program while it is loaded, and does not find it.
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
