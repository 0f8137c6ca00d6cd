/* SPDX-License-Identifier: BSD-3-Clause */
#include "api/sized.h"

#include <string.h>

#define SIZE_MAX_SANE 65536 /* No options struct is larger; an unset size often is. */

int sized_take(void *out, size_t out_size, const void *from, size_t least, struct err *err) {
    if (!from) {
        return err_set(err, ERR_INPUT, "options: NULL: give a struct with its 'size' set");
    }
    size_t size = 0;
    memcpy(&size, from, sizeof size);
    if (size < least || size > SIZE_MAX_SANE) {
        return err_set(err, ERR_INPUT, "options: 'size' is %zu: set it to sizeof of the struct",
                       size);
    }
    const unsigned char *bytes = from;
    for (size_t i = out_size; i < size; i++) {
        if (bytes[i] != 0) {
            return err_set(err, ERR_UNSUPPORTED,
                           "options: a field that this library (" SNAFFLE_VERSION
                           ") does not know is set");
        }
    }
    memset(out, 0, out_size);
    memcpy(out, from, size < out_size ? size : out_size);
    return 0;
}
