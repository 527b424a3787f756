/* What a recorded program may tell the recorder. libmsda_record.so exports these functions; look them up with dlsym
 * (or ctypes: ctypes.CDLL(None).msda_record_label), so that the program also runs without the recorder. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

/* Labels the calls that this thread makes from now on, for example with a test's name; null or "" removes the label.
 * The text is copied. */
void msda_record_label(const char* label);

#ifdef __cplusplus
}
#endif
