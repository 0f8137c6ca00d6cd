/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TESTS_SCRIPTED_TRY_H
#define SNAFFLE_TESTS_SCRIPTED_TRY_H

/* Hands a failure on: answers are long rows of appends, each of which can only want memory. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        int try_r_ = (call);                                                                       \
        if (try_r_ < 0) {                                                                          \
            return try_r_;                                                                         \
        }                                                                                          \
    } while (0)

#endif
