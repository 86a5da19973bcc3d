/* SPDX-License-Identifier: MIT */
/*
 * Names and addresses, for callers within the runtime. The public calls are sennit/resolve.h's.
 */
#ifndef SENNIT_NAMES_RESOLVE_H
#define SENNIT_NAMES_RESOLVE_H

#include <stdint.h>

#include <sennit/resolve.h>

#include "names/address.h"

/* sn_resolve() for parts that were checked. May park. */
int sn_resolve_parts(sn_resolved **resolved, const struct sn_host_port *parts, uint32_t flags,
		     int64_t deadline);

/* The same for "host:port", and for ":port" with SN_RESOLVE_PASSIVE. May park. */
int sn_resolve_text(sn_resolved **resolved, const char *text, uint32_t flags, int64_t deadline);

#endif
