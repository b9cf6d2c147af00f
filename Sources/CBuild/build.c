#include "CBuild.h"

// `Package.swift` defines it as the environment of the build says.
#ifndef PATHMIRROR_COMMIT
#define PATHMIRROR_COMMIT
#endif

#define TEXT_OF(word) #word
#define TEXT(word) TEXT_OF(word)

const char *pathmirror_build_commit(void) { return TEXT(PATHMIRROR_COMMIT); }
