/* SPDX-License-Identifier: MIT */
/*
 * Resolving names, for callers inside the runtime. sennit/resolve.h has the public calls.
 *
 * Contract. A numeric address is answered on the spot. Anything else is a lookup on a helper thread
 * (lookup.h), for which only the calling task waits, until its deadline or its cancellation; the
 * helper thread may outlive the wait. The answer belongs to the caller, who frees it.
 */
#ifndef SENNIT_NAMES_RESOLVE_H
#define SENNIT_NAMES_RESOLVE_H

#include <stdint.h>

#include <sennit/resolve.h>

#include "names/address.h"

/* sn_resolve() for parts that sn_address_split() or sn_address_join() has made. May park. */
int sn_resolve_parts(sn_resolved **resolved, const struct sn_host_port *parts, uint32_t flags,
		     int64_t deadline);

/* The same for "host:port", and for ":port" with SN_RESOLVE_PASSIVE. May park. */
int sn_resolve_text(sn_resolved **resolved, const char *text, uint32_t flags, int64_t deadline);

#endif
