/* SPDX-License-Identifier: MIT */
/* The trace of the flight recorder's content. <sennit/trace.h> has sn_trace_write(), trace.c says
 * how it is made. */
#ifndef SENNIT_DEBUG_TRACE_H
#define SENNIT_DEBUG_TRACE_H

#include "base/fork.h"

void sn_trace_fork(enum sn_fork_phase phase);

#endif
