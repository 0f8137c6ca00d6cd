/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SERVER_OPENENV_FAULTS_H
#define SNAFFLE_SERVER_OPENENV_FAULTS_H

#include <jansson.h>
#include <stdbool.h>

/* What is wrong with a message, as OpenEnv's clients read it: a list of {type, loc, msg, input}. */
struct faults {
    json_t *list;         /* NULL: none so far. Owned. */
    const char *under[3]; /* Comes before each place, NULL-ended: "body", "action". */
};

/* `where`: the field; NULL: the whole. `input` is borrowed. */
void fault_add(struct faults *f, const char *type, const char *where, const char *msg,
               const json_t *input);
bool faults_any(const struct faults *f);
json_t *faults_take(struct faults *f); /* The list; the caller owns it. */
void faults_deinit(struct faults *f);

/* A field that `known` lacks is a fault. */
void faults_of_extra(struct faults *f, const json_t *object, const char *const *known);
/* The field has to be there, as an object: else a fault and NULL. */
const json_t *faults_need_object(struct faults *f, const json_t *object, const char *field);

/* OpenEnv's common arguments of a reset and a step; what is absent or null leaves the output. */
void faults_of_reset(struct faults *f, const json_t *kwargs, const char **episode_id);
void faults_of_step(struct faults *f, const json_t *body, double *timeout_s);

#endif
