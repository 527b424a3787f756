/* What a program may say to the recorder while it runs under it. libmsda_record.so exports these; find them with dlsym
 * (or ctypes: ctypes.CDLL(None).msda_record_label), so that the program also runs without the recorder. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

/* Names the calls that this thread makes from now on, as a test's name; null or "" ends it. The text is copied. */
void msda_record_label(const char* label);

#ifdef __cplusplus
}
#endif
