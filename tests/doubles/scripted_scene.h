/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TESTS_SCRIPTED_SCENE_H
#define SNAFFLE_TESTS_SCRIPTED_SCENE_H

#include "base/json.h"
#include "tests/doubles/scripted_script.h"

/* One scene of the script. `at.object` NULL: the default scene. `folder` is where the script
 * stands: files it names are found from there. Keeps views into the object. */
int scene_parse(struct json_at at, const char *folder, struct scene *out,
                struct err *err) CHECK_RESULT;
void scene_deinit(struct scene *c);

#endif
