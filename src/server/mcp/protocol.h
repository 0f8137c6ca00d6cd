/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SERVER_MCP_PROTOCOL_H
#define SNAFFLE_SERVER_MCP_PROTOCOL_H

#include <stdbool.h>

#include "base/sv.h"

/* The versions of the Model Context Protocol that are spoken here, the newest first; NULL-ended. */
extern const char *const mcp_versions[];

bool mcp_version_known(struct sv version);

#endif
