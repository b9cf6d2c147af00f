#pragma once
// A C face of RE2, as small as the rules language needs it. No C++ exception crosses it.
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// A compiled pattern. Immutable: any number of threads may match with it at once.
typedef struct pathmirror_re2 pathmirror_re2;

/// Compiles an ASCII pattern of RE2's syntax, in which each byte of a text is one character. NULL on failure, with the reason in
/// `error` (cut to fit, NUL-terminated). `max_memory` bounds the program and its caches, in bytes.
pathmirror_re2 *pathmirror_re2_compile(const char *pattern, size_t length, int64_t max_memory, char *error,
                                       size_t error_capacity);

void pathmirror_re2_free(pathmirror_re2 *pattern);

/// True when the pattern is found at the start of the text. Linear in the text's length. False when memory ran out.
bool pathmirror_re2_matches(const pathmirror_re2 *pattern, const char *text, size_t length);

/// The number of the compiled pattern's instructions.
int pathmirror_re2_program_size(const pathmirror_re2 *pattern);

#ifdef __cplusplus
}
#endif
