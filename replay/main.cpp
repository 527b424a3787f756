#include "replay/commands/program.h"

int main(int argc, char** argv) { return msda::replay::run_program(argc, argv); }
