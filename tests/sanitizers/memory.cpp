// A program for the memory sanitizer, which requires all code to be built with it: it needs only the C library.
#include <stdio.h>

int main() { return puts("started") < 0; }
