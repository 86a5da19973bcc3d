/* SPDX-License-Identifier: MIT */
#ifndef SENNIT_SCHED_SIGNAL_H
#define SENNIT_SCHED_SIGNAL_H

/* Puts back the dispositions that sn_signal_catch() has changed. At the end of the runtime. */
void sn_signal_destroy(void);

#endif
