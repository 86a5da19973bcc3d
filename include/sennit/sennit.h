/* SPDX-License-Identifier: MIT */
/*
 * The part of the C interface that most programs use. Include the rest on request: scan.h (looking
 * at tasks), collector.h (garbage collectors), wait_stats.h (how long the library waits), vdso.h,
 * unstable.h, and gc.h and hooks.h, which belong to other libraries.
 */
#ifndef SENNIT_SENNIT_H
#define SENNIT_SENNIT_H

#include <sennit/address.h>
#include <sennit/barrier.h>
#include <sennit/base.h>
#include <sennit/blocking.h>
#include <sennit/buffered.h>
#include <sennit/channel.h>
#include <sennit/clock.h>
#include <sennit/cond.h>
#include <sennit/copy.h>
#include <sennit/debug.h>
#include <sennit/errno.h>
#include <sennit/fd.h>
#include <sennit/local.h>
#include <sennit/mutex.h>
#include <sennit/once.h>
#include <sennit/process.h>
#include <sennit/profile.h>
#include <sennit/relay.h>
#include <sennit/resolve.h>
#include <sennit/run.h>
#include <sennit/rwlock.h>
#include <sennit/scope.h>
#include <sennit/select.h>
#include <sennit/semaphore.h>
#include <sennit/signal.h>
#include <sennit/stream.h>
#include <sennit/task.h>
#include <sennit/tcp.h>
#include <sennit/timer.h>
#include <sennit/trace.h>
#include <sennit/udp.h>
#include <sennit/unix.h>
#include <sennit/waitgroup.h>
#include <sennit/when_readable.h>

#endif
