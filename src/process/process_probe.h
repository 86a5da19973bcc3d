/* SPDX-License-Identifier: MIT */
/*
 * What the kernel offers for started programs. These answers are only for reports: the code that
 * starts, watches and signals programs tries each call itself, and falls back if the kernel refuses
 * it.
 *
 * Contract. Each answer comes from the call itself, made so that it changes nothing. No child is
 * made: whether clone() gives a pidfd is known only once a program was started, and until then the
 * answer is that of pidfd_open(). Any thread; preserves errno.
 */
#ifndef SENNIT_PROCESS_PROCESS_PROBE_H
#define SENNIT_PROCESS_PROCESS_PROBE_H

#include <stdbool.h>

bool sn_process_has_pidfds(void);       /* otherwise a keeper looks at intervals */
bool sn_process_waits_by_pidfd(void);   /* otherwise waitid() by number */
bool sn_process_signals_by_pidfd(void); /* otherwise kill() */
bool sn_process_closes_by_range(void);  /* otherwise the child reads /proc/self/fd */

#endif
