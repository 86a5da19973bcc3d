/* SPDX-License-Identifier: MIT */
/*
 * What a program can tell the library, for it to find the program's mistakes.
 *
 * Foreign locks. A pthread mutex, or a std::mutex, belongs to the thread that has locked it. A task
 * that parks while it holds one may go on on another thread, and meanwhile lets tasks run that block
 * this one when they want the mutex: an error at best, a deadlock at worst. The library cannot see
 * such locks by itself: their owner is known only to themselves. When it is told, builds with
 * SENNIT_DEBUG end the program, with the call's name, when a task parks with one.
 *
 * LD_PRELOAD=libsennit-lock-check.so, which is built from tools/lock-check, tells it of all pthread
 * mutexes and rwlocks in a program that is linked dynamically; wrappers of other locks can do so too.
 */
#ifndef SENNIT_DEBUG_H
#define SENNIT_DEBUG_H

#include <sennit/base.h>

SN_BEGIN

/*
 * The calling thread has locked (by = 1) or unlocked (by = -1) so many locks that belong to threads.
 * Any thread; does not park. Without SENNIT_DEBUG in the library it does nothing.
 */
SN_API void sn_debug_foreign_locks(int by);

SN_END

#endif
