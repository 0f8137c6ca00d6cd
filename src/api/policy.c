/* SPDX-License-Identifier: BSD-3-Clause */
#include "api/error.h"
#include "api/factory.h"
#include "rollout/factory.h"

int snaffle_factory_set_policy_version(snaffle_factory *factory, const char *version,
                                       snaffle_error **error) {
    struct err err = {0};
    int r = rollout_factory_set_policy_version(factory->inner, version, &err);
    return r < 0 ? api_error(&err, error) : 0;
}

int snaffle_session_set_policy_version(snaffle_session *session, const char *version,
                                       snaffle_error **error) {
    struct err err = {0};
    int r = rollout_session_set_policy_version(session->inner, version, &err);
    return r < 0 ? api_error(&err, error) : 0;
}
