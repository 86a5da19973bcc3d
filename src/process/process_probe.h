/* SPDX-License-Identifier: MIT */
/*
 * What the kernel offers for started programs. For reports: the code that starts, watches and
 * signals programs tries each call itself, and falls back when it is refused.
 *
 * Contract. Each answer comes from that call, made so that it changes nothing. No child is made:
 * whether clone() gives a pidfd is known once a program was started, and pidfd_open() tells until
 * then. Any thread; preserves errno.
 */
#ifndef SENNIT_PROCESS_PROCESS_PROBE_H
#define SENNIT_PROCESS_PROCESS_PROBE_H

#include <stdbool.h>

bool sn_process_has_pidfds(void);       /* otherwise a keeper asks at intervals */
bool sn_process_waits_by_pidfd(void);   /* otherwise waitid() by number */
bool sn_process_signals_by_pidfd(void); /* otherwise kill() */
bool sn_process_closes_by_range(void);  /* otherwise the child reads /proc/self/fd */

#endif
