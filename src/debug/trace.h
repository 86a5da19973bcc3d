/* SPDX-License-Identifier: MIT */
/*
 * The trace of the flight recorder's content: what run/run.c needs of it.
 *
 * Contract. <sennit/trace.h> has sn_trace_write(), and trace.c says how a trace is made, and who
 * may write what. One trace is written at a time. A child of fork() has only the thread that
 * forked, so a trace that another thread was writing is not under way there: sn_trace_fork() says
 * so.
 */
#ifndef SENNIT_DEBUG_TRACE_H
#define SENNIT_DEBUG_TRACE_H

#include "base/fork.h"

void sn_trace_fork(enum sn_fork_phase phase);

#endif
