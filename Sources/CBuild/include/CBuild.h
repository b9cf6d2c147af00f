#pragma once

// The commit that the program was built from, in hexadecimal digits; empty where the build did not say.
const char *pathmirror_build_commit(void);
