/* SPDX-License-Identifier: MIT */
/*
 * The mailbox of a thread without a processor: another thread puts one into thread->handed and
 * releases the parker (sn_processor_hand() in processor_list.c). models/parker.pml has the parker,
 * models/pin.pml the mailbox.
 *
 * Who may write what: handed, the thread that hands a processor over, while it is NULL; NULL again,
 * the thread itself, once it has the processor.
 */
#ifndef SENNIT_SCHED_MAILBOX_H
#define SENNIT_SCHED_MAILBOX_H

#include <stdint.h>

struct sn_thread;

/*
 * Waits in the parker for a processor. Returns -ETIMEDOUT after the deadline (0: none), otherwise
 * 0, also when the runtime ends.
 */
int sn_await_processor(struct sn_thread *self, int64_t deadline);

#endif
