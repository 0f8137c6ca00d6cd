/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_API_SETTINGS_H
#define SNAFFLE_API_SETTINGS_H

#include "rollout/catalog.h"
#include "rollout/config.h"
#include "rollout/factory.h"
#include "snaffle/snaffle.h"

/* What a factory keeps pointers into, and the options made of it. */
struct settings {
    struct config config;
    struct endpoint endpoint;
    char *runs_dir;
    char *run;
    struct rollout_options options;
};

/* From the caller's options, whose strings are borrowed. The holder calls settings_deinit after
 * the factory is gone, and does not move the struct in between. */
int settings_make(struct settings *s, const snaffle_options *o, struct err *err) CHECK_RESULT;
void settings_deinit(struct settings *s);

#endif
