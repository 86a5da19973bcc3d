/* SPDX-License-Identifier: MIT */
/* The trace of what was recorded. <sennit/trace.h> has sn_trace_write(). */
#ifndef SENNIT_DEBUG_TRACE_H
#define SENNIT_DEBUG_TRACE_H

#include "base/fork.h"

void sn_trace_fork(enum sn_fork_phase phase);

#endif
