/* What a recorded program may report to the recorder. libmsda_record.so exports these functions; look them up with
 * dlsym (or ctypes: ctypes.CDLL(None).msda_record_label), so that the program also runs without the recorder. */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Labels the calls that this thread makes from now on, for example with a test's name; null or "" removes the label.
 * The text is copied. */
void msda_record_label(const char* label);

/* Completes the capture of the calls so far, and waits, at most a minute, until its file is closed. Returns the number
 * of invocations in it; 0 if no call was recorded: then there is no file; -1 if recording has ended, `size` is too
 * small, or it took longer. `path` receives the file's name. The next call, maybe of another thread, begins another
 * capture, of the same name if the file has been moved by then, otherwise of one with a number. */
long long msda_record_complete(char* path, size_t size);

/* In a survey (docs/survey.md): what it has found so far. Writes a line for each kernel that was launched: how many of
 * its launches varied, how many were surveyed, how many there were, and its name; these are separated by single spaces.
 * Returns the bytes of the text and of the zero at its end; if `size` is less, nothing is written. 0: no survey. */
size_t msda_record_survey(char* text, size_t size);

/* Discards the calls so far, instead of writing them into a capture. */
void msda_record_discard(void);

#ifdef __cplusplus
}
#endif
