// A program for the memory sanitizer, which wants all code built with it: it needs the C library alone.
#include <stdio.h>

int main() { return puts("started") < 0; }
