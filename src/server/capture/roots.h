/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SERVER_CAPTURE_ROOTS_H
#define SNAFFLE_SERVER_CAPTURE_ROOTS_H

#include "base/sv.h"

/* The certificates that the building machine trusted, as tls_set_roots takes them; of the
 * standalone program only. Made at build time. */
extern const struct sv capture_roots;

#endif
