/* SPDX-License-Identifier: BSD-3-Clause */
/* Any JSON is an action, a reset's and a step's arguments, or has faults that each say type, place,
 * words and input; and reading it again finds the same. */
#include <stdint.h>
#include <string.h>

#include "base/json.h"
#include "server/openenv/step.h"

static json_t *read_all(const json_t *value) {
    static const char *const known[] = {"type", "data", NULL};
    struct faults f = {.under = {"body", "action"}};
    struct action action = {0};
    const char *episode = NULL;
    double timeout_s = 0;
    action_read(value, &f, &action);
    BUG_IF(!faults_any(&f) && !action.lists && !action.tool.p);
    BUG_IF(action.arguments && !json_is_object(action.arguments));
    faults_of_reset(&f, value, &episode);
    BUG_IF(episode && strlen(episode) > 4 * EPISODE_ID_MAX);
    faults_of_step(&f, value, &timeout_s);
    BUG_IF(!(timeout_s >= 0));
    faults_of_extra(&f, value, known);
    (void)faults_need_object(&f, value, "data");
    return faults_any(&f) ? faults_take(&f) : json_array();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    AUTO_JSON json_t *value = NULL;
    if (json_parse((struct sv){(const char *)data, size}, "fuzz", &value, NULL) < 0 ||
        !json_is_object(value)) {
        return 0;
    }
    AUTO_JSON json_t *faults = read_all(value);
    AUTO_JSON json_t *again = read_all(value);
    BUG_IF(!json_equal(faults, again));
    for (size_t i = 0; i < json_array_size(faults); i++) {
        const json_t *fault = json_array_get(faults, i);
        BUG_IF(!json_is_string(json_object_get(fault, "type")) ||
               !json_is_string(json_object_get(fault, "msg")) ||
               json_array_size(json_object_get(fault, "loc")) < 2 ||
               !json_object_get(fault, "input"));
    }
    return 0;
}
