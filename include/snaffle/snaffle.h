/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SNAFFLE_H
#define SNAFFLE_SNAFFLE_H

/* The public C interface of Snaffle. */

#ifdef __cplusplus
extern "C" {
#endif

/* The library's version, "0.1.0"; a static string. */
const char *snaffle_version(void);

#ifdef __cplusplus
}
#endif

#endif
